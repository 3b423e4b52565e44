package binding_test

import (
	"context"
	"testing"
	"time"

	"github.com/berth-dev/berth/host/schedule/binding"
	"github.com/berth-dev/berth/host/schedule/policytest"
	"github.com/berth-dev/berth/host/store"

	v1 "k8s.io/api/core/v1"
)

func TestRecorderCountsUpWhatIsToldAgain(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s, err := store.Open(ctx, store.NewMemory(), plain{}, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := binding.NewRecorder(s, nil, nil)
	ended := make(chan error)
	go func() { ended <- r.Run(ctx) }()
	pod := policytest.Pod("app", "1", "1Gi", nil)
	for range 3 {
		r.Event(pod, v1.EventTypeWarning, "FailedScheduling", "0/1 nodes are available: 1 Insufficient cpu.")
		time.Sleep(time.Millisecond)
	}
	r.Event(pod, v1.EventTypeNormal, "Scheduled", "Successfully assigned default/app to a")
	counts := map[string]int32{}
	for range 2000 {
		list, err := s.List("events", "default", store.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range list.Items {
			e := o.(*v1.Event)
			counts[e.Reason] = e.Count
		}
		if counts["Scheduled"] == 1 && counts["FailedScheduling"] == 3 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if len(counts) != 2 || counts["FailedScheduling"] != 3 {
		t.Errorf("events = %v, want FailedScheduling 3 times and Scheduled once", counts)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
