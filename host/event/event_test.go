package event

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/host/store"
	"github.com/berth-dev/berth/host/store/storetest"
)

func pod(name string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "uid-" + "x"}}
}

// written runs a writer on what tell tells, for a while, and returns the Events.
func written(t *testing.T, tell func(*Recorder), for_ time.Duration) []*v1.Event {
	t.Helper()
	var events []*v1.Event
	synctest.Test(t, func(t *testing.T) {
		s := storetest.Open(t)
		addNamespace(t, s, "default")
		w := NewWriter(s, func(store.Object) (string, string) { return "v1", "Pod" }, time.Now, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.Run(ctx) }()
		tell(w.For("scheduler"))
		time.Sleep(for_)
		synctest.Wait()
		list, err := s.List("events", "default", store.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range list.Items {
			events = append(events, o.(*v1.Event))
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return events
}

func TestRepetitionsAreCounted(t *testing.T) {
	t.Parallel()
	events := written(t, func(r *Recorder) {
		for range 3 {
			r.Event(pod("a"), "Warning", "FailedScheduling", "no node")
			time.Sleep(time.Second)
		}
		r.Event(pod("a"), "Normal", "Scheduled", "to n1")
	}, time.Second)
	if len(events) != 2 {
		t.Fatalf("%d events, want 2", len(events))
	}
	if events[0].Count != 3 || events[1].Count != 1 {
		t.Errorf("counts = %d, %d, want 3, 1", events[0].Count, events[1].Count)
	}
	if e := events[0]; e.InvolvedObject.Kind != "Pod" || e.InvolvedObject.Name != "a" || e.Source.Component != "scheduler" || !e.LastTimestamp.After(e.FirstTimestamp.Time) {
		t.Errorf("event = %+v", e)
	}
}

func TestOldEventsExpire(t *testing.T) {
	t.Parallel()
	if events := written(t, func(r *Recorder) { r.Event(pod("a"), "Normal", "Old", "") }, Life+2*expireEvery); len(events) != 0 {
		t.Errorf("%d events are left after their life, want none", len(events))
	}
}

func TestLongMessagesAreCut(t *testing.T) {
	t.Parallel()
	events := written(t, func(r *Recorder) { r.Event(pod("a"), "Normal", "Long", string(make([]byte, 5000))) }, time.Second)
	if len(events) != 1 || len(events[0].Message) != maxMessage {
		t.Errorf("events = %d, want one message of %d bytes", len(events), maxMessage)
	}
}
