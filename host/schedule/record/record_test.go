package record_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/host/schedule"
	"github.com/berth-dev/berth/host/schedule/policytest"
	"github.com/berth-dev/berth/host/schedule/profile"
	"github.com/berth-dev/berth/host/schedule/record"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// recorded walks at random, decides now and then, and returns the states.
func recorded(t *testing.T, dir string, seed uint64) map[uint64][]string {
	t.Helper()
	w, err := record.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	r := rand.New(rand.NewPCG(seed, 1))
	c := snapshot.New(0)
	states := map[uint64][]string{}
	digest := &profile.Digest{Profile: "p", Policies: []profile.PolicyDigest{{Name: "a", Identity: [32]byte{1}}}}
	number := w.Next
	var traces []schedule.Trace
	w.Record(ctx, c, nil)
	for step := range 300 {
		if r.IntN(6) == 0 {
			states[number] = policytest.Summary(c)
			pod := snapshot.NewPod(policytest.Pod(fmt.Sprint("d", number), "1", "1Gi", nil))
			traces = append(traces, schedule.Trace{
				Number: number, Position: c.Seq(), Pod: pod, UID: pod.UID(), Name: pod.Object.Name, Digest: digest, Seed: r.Uint64(),
				Outcome: schedule.Placed, Node: "n1", Excluded: map[int32]string{3: "no volume"}, Nominated: map[int32][]*snapshot.Pod{2: {pod}},
			})
			number++
		}
		policytest.Walk(r, c, step)
		if r.IntN(10) == 0 {
			w.Record(ctx, c, traces)
			traces = nil
		}
	}
	w.Record(ctx, c, traces)
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	return states
}

func TestWhatIsRecordedIsReadAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	states := recorded(t, dir, 1)
	for number, state := range recorded(t, dir, 2) { // after a restart
		if states[number] != nil {
			t.Fatalf("decision %d was recorded twice", number)
		}
		states[number] = state
	}
	if len(states) < 70 {
		t.Fatalf("only %d decisions were made", len(states))
	}
	for number, want := range states {
		trace, view, err := record.Read(dir, number)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, policytest.Summary(view)); diff != "" {
			t.Fatalf("the state of decision %d (-want +got):\n%s", number, diff)
		}
		if trace.Number != number || trace.Name != fmt.Sprint("d", number) || trace.Digest.Policies[0].Identity != [32]byte{1} ||
			trace.Excluded[3] != "no volume" || len(trace.Nominated[2]) != 1 || trace.Pod.Requests.MilliCPU != 1000 {
			t.Fatalf("decision %d is read as %+v", number, trace)
		}
	}
	if _, _, err := record.Read(dir, 1<<40); !errors.Is(err, record.ErrNone) {
		t.Errorf("a decision that never was: %v", err)
	}
}

// FuzzRead reads what may have been cut or spoiled on disk.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"kind":"node","number":0,"seq":1,"object":{}}` + "\n" + `{"kind":"decision","number":0,"seq":1,"trace":{"Pod":{},"Digest":{}}}` + "\n"))
	f.Add([]byte(`{"kind":"placed","number":0,"seq":1,"slot":-4,"object":{}}` + "\n" + `{"kind":"object","number":0,"seq":1,"version":"v1","type":"Status","object":{}}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, "decisions"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "decisions", "00000000000000000000.jsonl"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, _ = record.Read(dir, 0)
	})
}
