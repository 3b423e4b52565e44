package nodeagent

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/nodeagent/image"
)

// imagesEvery is how often it is noted which images are in use.
const imagesEvery = time.Minute

// collectImages notes which images are in use, and removes others once the
// disk is fuller than it should be, those first that were in use the longest
// ago.
func (a *Agent) collectImages(ctx context.Context, now time.Time) {
	u, err := a.cfg.Images.Filesystem(ctx)
	if err != nil || u.Capacity <= 0 {
		return
	}
	full := float64(u.Capacity-u.Available) >= a.cfg.Pressure.ImagesHigh*float64(u.Capacity)
	if !full && now.Sub(a.imagesAt) < imagesEvery {
		return
	}
	list, err := a.cfg.Images.List(ctx)
	if err != nil {
		a.log.Warn("list images", "error", err)
		return
	}
	all, err := a.cfg.Runtime.List(ctx)
	if err != nil { // not knowing what is in use, nothing is removed
		a.log.Warn("list containers", "error", err)
		return
	}
	used := map[string]bool{}
	for _, c := range all.Containers {
		used[c.Image] = true
		for _, id := range c.MountedImages {
			used[id] = true
		}
	}
	a.imagesAt = now
	a.imageUse.See(list, used, now)
	if full {
		a.removeImages(ctx, list, used, u, now)
	}
}

func (a *Agent) removeImages(ctx context.Context, list []image.Image, used map[string]bool, u image.Usage, now time.Time) {
	need := u.Capacity - u.Available - int64(a.cfg.Pressure.ImagesLow*float64(u.Capacity))
	freed := int64(0)
	for _, img := range a.imageUse.Collect(list, used, need, now) {
		a.log.Info("remove an unused image", "image", img.ID, "names", img.Names, "bytes", img.Size)
		if err := a.cfg.Images.Remove(ctx, img.ID); err != nil {
			a.log.Warn("remove image", "image", img.ID, "error", err)
			continue
		}
		freed += img.Size
	}
	if freed < need {
		a.tell(v1.EventTypeWarning, "FreeDiskSpaceFailed",
			"Failed to garbage collect required amount of images. Attempted to free %d bytes, but only found %d bytes eligible to free.", need, freed)
	}
}
