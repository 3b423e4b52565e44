package schedule

import (
	"context"
	"fmt"
	"testing"

	"github.com/berth-dev/berth/host/schedule/policytest"
	"github.com/berth-dev/berth/host/schedule/profile"
)

// flood tells of nodes and pods once, and binds nothing.
type flood struct {
	Binder
	events chan []Event
}

func (f *flood) Next(ctx context.Context) ([]Event, bool, error) {
	select {
	case events := <-f.events:
		return events, true, nil
	case <-ctx.Done():
		return nil, true, ctx.Err()
	}
}

func (f *flood) Bind(_ context.Context, list []Binding) []error { return make([]error, len(list)) }

func TestPoliciesTidyUpThoughThereIsMoreToDecide(t *testing.T) {
	t.Parallel()
	reasons := NewReasons(0)
	set := policytest.Live(1, func() *profile.Profile { return policytest.Default(reasons) })
	f := &flood{events: make(chan []Event, 1)}
	const pods = 4 * restAfter
	done := make(chan struct{})
	var s *Scheduler
	last, longest := uint64(0), uint64(0)
	s, err := New(Config{
		Source: f, Binder: f, Reasons: reasons, Set: func() *LiveSet { return set },
		Rest: func(context.Context) bool {
			now := s.Stats().Cycles
			last, longest = now, max(longest, now-last)
			if now == pods {
				select {
				case <-done:
				default:
					close(done)
				}
			}
			return false
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	events := []Event{{Resource: "nodes", Object: policytest.Node("n", "640", "640Gi", 10000, nil)}}
	for i := range pods {
		events = append(events, Event{Resource: "pods", Object: policytest.Pod(fmt.Sprint("p", i), "1m", "1Mi", nil)})
	}
	f.events <- events
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	<-done
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if longest > restAfter+stepsAtOnce {
		t.Errorf("%d cycles passed without a rest, want at most %d", longest, restAfter+stepsAtOnce)
	}
}
