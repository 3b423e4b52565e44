package image

import (
	"cmp"
	"slices"
)

// Collect chooses what to remove so that need bytes become free: images that
// are neither in use (by ID) nor pinned, those first that came first. It
// chooses all of them if that is not enough.
func Collect(list []Image, used map[string]bool, need int64) []Image {
	free := slices.DeleteFunc(slices.Clone(list), func(i Image) bool { return i.Pinned || used[i.ID] })
	slices.SortFunc(free, func(a, b Image) int { return cmp.Or(a.PulledAt.Compare(b.PulledAt), cmp.Compare(a.ID, b.ID)) })
	for i, img := range free {
		if need <= 0 {
			return free[:i]
		}
		need -= img.Size
	}
	return free
}
