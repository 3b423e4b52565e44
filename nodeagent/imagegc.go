package nodeagent

import (
	"context"
	"math"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/nodeagent/image"
)

// imagesEvery is how often it is noted which images are in use.
const imagesEvery = time.Minute

// filesystem measures the images' disk; what is not known is zero.
func (a *Agent) filesystem(ctx context.Context) image.Usage {
	u, err := a.cfg.Images.Filesystem(ctx)
	if err != nil {
		a.log.Warn("measure the images' disk", "err", err)
		return image.Usage{}
	}
	return u
}

// collectImages notes which images are in use, and removes others once the
// disk is fuller than it should be, those first that were in use the longest
// ago; all of them if pods would have to go otherwise. It says whether it removed
// some.
func (a *Agent) collectImages(ctx context.Context, u image.Usage, all bool, now time.Time) bool {
	need := a.surplus(u)
	if !all && need == 0 && now.Sub(a.imagesAt) < imagesEvery {
		return false
	}
	list, err := a.cfg.Images.List(ctx)
	if err != nil {
		a.log.Warn("list images", "err", err)
		return false
	}
	used, err := a.imagesInUse(ctx)
	if err != nil { // not knowing what is in use, nothing is removed
		a.log.Warn("list containers", "err", err)
		return false
	}
	a.imagesAt = now
	a.imageUse.See(list, used, now)
	if all {
		return a.removeImages(ctx, a.imageUse.Collect(list, used, math.MaxInt64, now)) > 0
	}
	if need == 0 {
		return false
	}
	freed := a.removeImages(ctx, a.imageUse.Collect(list, used, need, now))
	if freed < need {
		a.tell(v1.EventTypeWarning, "FreeDiskSpaceFailed",
			"Failed to garbage collect required amount of images. Attempted to free %d bytes, but only found %d bytes eligible to free.", need, freed)
	}
	return freed > 0
}

// surplus is how many bytes of images are to go, for their disk's sake.
func (a *Agent) surplus(u image.Usage) int64 {
	share := func(percent int) int64 { return int64(float64(percent) / 100 * float64(u.Capacity)) }
	high, used := a.cfg.Pressure.ImagesHigh, u.Capacity-u.Available
	if u.Capacity <= 0 || high >= 100 || used < share(high) {
		return 0
	}
	return used - share(a.cfg.Pressure.ImagesLow)
}

func (a *Agent) imagesInUse(ctx context.Context) (map[string]bool, error) {
	all, err := a.cfg.Runtime.List(ctx)
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	for _, c := range all.Containers {
		used[c.Image] = true
		for _, id := range c.MountedImages {
			used[id] = true
		}
	}
	return used, nil
}

// removeImages gives how many bytes are free by it.
func (a *Agent) removeImages(ctx context.Context, list []image.Image) (freed int64) {
	for _, img := range list {
		a.log.Info("remove an unused image", "image", img.ID, "names", img.Names, "bytes", img.Size)
		if err := a.cfg.Images.Remove(ctx, img.ID); err != nil {
			a.log.Warn("remove image", "image", img.ID, "err", err)
			continue
		}
		if err := a.pulls.Forget(img.ID); err != nil {
			a.log.Warn("forget who pulled an image", "image", img.ID, "err", err)
		}
		freed += img.Size
	}
	return freed
}
