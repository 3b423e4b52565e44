package serve

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/nodeagent/pod"
)

// TestThePreviousLogIsThatOfTheLastState: of a container that waits it is the log of the
// run that just ended.
func TestThePreviousLogIsThatOfTheLastState(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		then func(r *pod.Record, now time.Time) // after the second run has begun
		want string
	}{
		"it runs":      {func(*pod.Record, time.Time) {}, "run 0"},
		"it has ended": {func(r *pod.Record, now time.Time) { r.DidExit("app", pod.Termination{ExitCode: 1, FinishedAt: now}) }, "run 0"},
		"it is in back-off": {func(r *pod.Record, now time.Time) {
			r.DidExit("app", pod.Termination{ExitCode: 1, FinishedAt: now})
			r.Next(now)
		}, "run 1"},
		"it could not start again": {func(r *pod.Record, now time.Time) {
			r.DidExit("app", pod.Termination{ExitCode: 1, FinishedAt: now})
			r.DidNotStart("app", "CreateContainerConfigError", "no secret", now)
		}, "run 1"},
		"it was in back-off, and its pod ends": {func(r *pod.Record, now time.Time) {
			r.DidExit("app", pod.Termination{ExitCode: 1, FinishedAt: now})
			r.Next(now)
			r.Remove(now)
		}, "run 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now, dir := time.Now(), t.TempDir()
			r := pod.New(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u"},
				Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app", Image: "i"}}}}, now)
			r.DidSetUp()
			r.DidStartSandbox("s", nil)
			for i := range 2 {
				log := filepath.Join(dir, fmt.Sprintf("%d.log", i))
				if err := os.WriteFile(log, fmt.Appendf(nil, "%s stdout F run %d\n", now.Format(time.RFC3339Nano), i), 0o600); err != nil {
					t.Fatal(err)
				}
				r.DidExit("app", pod.Termination{ExitCode: 1, FinishedAt: now})
				r.DidStart("app", pod.Run{ID: fmt.Sprintf("c%d", i), Image: "i", LogPath: log, StartedAt: now}, now)
			}
			test.then(r, now)
			b := &bench{t: t, ca: newAuthority(t), rec: r}
			b.serve()
			if code, body := b.get("/containerLogs/default/web/app?previous=true"); code != 200 || body != test.want+"\n" {
				t.Errorf("%d %q, want the log of %s", code, body, test.want)
			}
		})
	}
}
