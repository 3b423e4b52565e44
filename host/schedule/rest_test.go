package schedule

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/policytest"
	"github.com/berth-dev/berth/host/schedule/snapshot"
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
	reasons := framework.NewReasons(0)
	set := policytest.Live(1, func() *framework.Profile { return policytest.Default(reasons) })
	f := &flood{events: make(chan []Event, 1)}
	const pods = 4 * restAfter
	done := make(chan struct{})
	var s *Scheduler
	last, longest := uint64(0), uint64(0)
	s, err := New(Config{
		Source: f, Binder: f, Reasons: reasons, Set: func() *framework.LiveSet { return set },
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

func TestPoliciesDoNotTidyUpInEachPauseForBreath(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reasons := framework.NewReasons(0)
		set := policytest.Live(1, func() *framework.Profile { return policytest.Default(reasons) })
		f := &flood{events: make(chan []Event, 1)}
		rests := make(chan time.Time, 1000)
		s, err := New(Config{
			Source: f, Binder: f, Reasons: reasons, Set: func() *framework.LiveSet { return set },
			Rest: func(context.Context) bool {
				rests <- time.Now()
				return len(rests)%3 != 0
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		f.events <- []Event{{Resource: "nodes", Object: policytest.Node("n", "640", "640Gi", 10000, nil)}}
		for i := range 100 {
			f.events <- []Event{{Resource: "pods", Object: policytest.Pod(fmt.Sprint("p", i), "1m", "1Mi", nil)}}
			time.Sleep(restQuiet / 5)
		}
		synctest.Wait()
		if len(rests) > 0 {
			t.Errorf("policies were let tidy up %d times between 100 pods that came one after the other", len(rests))
		}
		last := time.Now()
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(rests) != 3 {
			t.Fatalf("policies were let tidy up %d times after the last pod, want 3 times, until nothing was left", len(rests))
		}
		if first := <-rests; first.Sub(last) > restQuiet {
			t.Errorf("policies were let tidy up %v after the last pod came, want %v at most", first.Sub(last), restQuiet)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// What comes at once may be more than the log's newest end holds: it is recorded
// bit by bit, lest the decisions with it cannot be.
func TestWhatComesAtOnceIsRecordedBitByBit(t *testing.T) {
	t.Parallel()
	reasons := framework.NewReasons(0)
	set := policytest.Live(1, func() *framework.Profile { return policytest.Default(reasons) })
	f := &flood{}
	var seen uint64
	missed := 0
	s, err := New(Config{
		Source: f, Binder: f, Reasons: reasons, Set: func() *framework.LiveSet { return set }, LogBytes: 1 << 18,
		Record: func(_ context.Context, log snapshot.Log, _ []Trace) {
			if _, ok := log.Since(seen); !ok {
				missed++
			}
			seen = log.Seq()
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range cap(s.events) {
		var events []Event
		for j := range 8 {
			events = append(events, Event{Resource: "nodes", Object: policytest.Node(fmt.Sprint("n", j), fmt.Sprint(i+1), "64Gi", 110, nil)})
		}
		s.events <- batch{events: events}
	}
	s.drain(t.Context())
	s.record(t.Context())
	if missed > 0 || seen != s.core.cluster.Seq() {
		t.Errorf("of %d changes %d were recorded, and %d times some were missed", s.core.cluster.Seq(), seen, missed)
	}
}
