package worker

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/nodeagent/image"
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
