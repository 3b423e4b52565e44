package worker

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/nodeagent/image"
	"github.com/berth-dev/berth/nodeagent/pod"
)

// A pull that takes long is told of: after ten seconds, and then ever more seldom.
func TestALongPullIsToldOf(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var said []string
		want := wanted{ref: "big:1", tell: func(_, reason, format string, args ...any) {
			said = append(said, reason+": "+fmt.Sprintf(format, args...))
		}}
		tell := want.progress(time.Now())
		for i := range int64(100) {
			time.Sleep(time.Second)
			tell(image.Progress{Done: i << 20, Total: 1 << 30})
		}
		if diff := cmp.Diff([]string{
			`Pulling: Still pulling image "big:1" after 10s: 9.0 MiB of 1024.0 MiB so far`,
			`Pulling: Still pulling image "big:1" after 20s: 19.0 MiB of 1024.0 MiB so far`,
			`Pulling: Still pulling image "big:1" after 40s: 39.0 MiB of 1024.0 MiB so far`,
			`Pulling: Still pulling image "big:1" after 1m20s: 79.0 MiB of 1024.0 MiB so far`,
		}, said); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
	})
}

// An image that was corrected while the wrong one was fetched runs as soon as that has
// ended, whatever came of it.
func TestAnImageCorrectedDuringAPullRuns(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"wrong:1", "absent:1"} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, func(b *bench) {
				b.images.Delay = time.Minute
				b.images.Remote = func(ref string, _ []image.Credential) (image.Config, error) {
					if ref == "absent:1" {
						return image.Config{}, errors.New("no such image")
					}
					return image.Config{}, nil
				}
			})
			defer b.end()
			p := newPod("web")
			p.Spec.Containers[0].Image = first
			b.pool.Set(p, nil)
			b.after(30 * time.Second)
			p = p.DeepCopy()
			p.Generation++
			p.Spec.Containers[0].Image = "right:1"
			b.pool.Set(p, nil)
			b.after(30*time.Second + time.Minute + time.Second)
			right, err := b.images.Get(t.Context(), "right:1")
			if err != nil {
				t.Fatal(err)
			}
			b.pool.View("default", "web", func(r *pod.Record) {
				s := r.Containers["app"]
				if cfg, _ := b.runtime.Config(s.ID); s.Phase != pod.Running || cfg.Image != right.ID || s.Image != "right:1" {
					t.Errorf("after %s: %q, and runs %q, said to be %q", first, s.Phase, cfg.Image, s.Image)
				}
			})
		})
	}
}
