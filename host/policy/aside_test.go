package policy_test

import (
	"testing"

	"github.com/berth-dev/berth/host/schedule/cycle"
	clustertest "github.com/berth-dev/berth/host/schedule/policytest"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// What is played through beside the live set must neither quarantine a policy
// that decides nor speak in its name.
func TestWhatIsPlayedThroughCountsForNobody(t *testing.T) {
	t.Parallel()
	for entry, how := range map[string]string{"Trips": "panic", "Talks": ""} {
		t.Run(entry, func(t *testing.T) {
			t.Parallel()
			r := withTroubled(t, entry, "")
			r.withTrap(3, how)
			set, release, err := r.Scheduling().Reopen(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer release()
			for range 8 {
				pod := snapshot.NewPod(clustertest.Pod("p", "10m", "1Mi", nil))
				if _, err := cycle.Judge(t.Context(), set.For(pod), r.reasons, r.cluster, pod, 1); err != nil {
					t.Fatal(err)
				}
			}
			if f := r.figures(t, "troubled"); f.Calls != 0 || f.Failures != 0 || f.Quarantined {
				t.Errorf("the policy that decides counts %d calls and %d failures, quarantined: %v", f.Calls, f.Failures, f.Quarantined)
			}
			if lines, _ := r.GuestLog("troubled"); len(lines) > 0 {
				t.Errorf("it says %q", lines[0].Message)
			}
		})
	}
}
