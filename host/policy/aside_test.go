package policy_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/berth-dev/berth/host/policy/trial"
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

// What a plan's policies say must not fill the table of those that decide.
func TestAPlansReasonsAreNotTheLiveOnes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.cluster.UpsertNode(clustertest.Node("n", "1", "1Gi", 10, nil))
	v, err := r.Vary(t.Context(), []trial.Variation{{Name: "made", Wasm: guest{Name: "made", Version: "1"}.Bytes(), Profile: "default"}})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Release()
	pod, before := snapshot.NewPod(clustertest.Pod("p", "10m", "1Mi", nil)), r.reasons.Len()
	table, err := cycle.Judge(t.Context(), v.Set.For(pod), r.reasons, r.cluster, pod, 1)
	if err != nil {
		t.Fatal(err)
	}
	said := ""
	for k := range table.Predicates {
		if reason := r.reasons.Get(table.Predicates[k].Reasons[0]); reason.Policy == "made" {
			said = reason.Text
		}
	}
	if said == "" {
		t.Error("the live table does not know what the plan's policy says")
	}
	if after := r.reasons.Len(); after != before {
		t.Errorf("the live table has %d reasons more", after-before)
	}
}

// TestAPlanLeavesNothingBehind (not beside others, since it measures the heap) tries
// policies whose names are large.
func TestAPlanLeavesNothingBehind(t *testing.T) {
	const size, n = 8 << 20, 4
	r := newRig(t)
	wasm := guest{Name: "made", Version: "1"}.Bytes()
	try := func(letter byte) {
		v, err := r.Vary(t.Context(), []trial.Variation{{Name: strings.Repeat(string(letter), size), Wasm: wasm}})
		if err != nil {
			t.Fatal(err)
		}
		v.Release()
	}
	try('a')
	before := heapBytes()
	for i := range byte(n) {
		try('b' + i)
	}
	if left := heapBytes() - before; left > size {
		t.Errorf("%d plans leave %d bytes", n, left)
	}
	runtime.KeepAlive(r)
}

func heapBytes() int64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}
