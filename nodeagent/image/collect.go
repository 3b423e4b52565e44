package image

import (
	"cmp"
	"slices"
	"time"
)

// leastAge is how long an image is let alone after it was first seen: somebody
// may have pulled it for a container that is not made yet.
const leastAge = 2 * time.Minute

// Uses remembers since when images are known, and when they were last in use,
// by ID. Its zero value is ready.
type Uses struct {
	first, last map[string]time.Time
}

// See notes which images there are, and which of them are in use.
func (u *Uses) See(list []Image, used map[string]bool, now time.Time) {
	first, last := make(map[string]time.Time, len(list)), make(map[string]time.Time, len(list))
	for _, img := range list {
		if since, known := u.first[img.ID]; known {
			first[img.ID], last[img.ID] = since, u.last[img.ID]
		} else {
			first[img.ID] = now
		}
		if used[img.ID] {
			last[img.ID] = now
		}
	}
	u.first, u.last = first, last
}

// Collect chooses what to remove so that need bytes become free: images that are
// neither in use (by ID), nor pinned, nor new; those first that were in use the
// longest ago, and of those the ones that came first. It chooses all of them if
// that is not enough.
func (u *Uses) Collect(list []Image, used map[string]bool, need int64, now time.Time) []Image {
	free := slices.DeleteFunc(slices.Clone(list), func(i Image) bool {
		since, known := u.first[i.ID]
		return i.Pinned || used[i.ID] || !known || now.Sub(since) < leastAge
	})
	slices.SortFunc(free, func(a, b Image) int {
		return cmp.Or(u.last[a.ID].Compare(u.last[b.ID]), u.first[a.ID].Compare(u.first[b.ID]),
			a.PulledAt.Compare(b.PulledAt), cmp.Compare(a.ID, b.ID))
	})
	for i, img := range free {
		if need <= 0 {
			return free[:i]
		}
		need -= img.Size
	}
	return free
}
