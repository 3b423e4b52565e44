package schedule

import (
	"errors"
	"testing"
	"time"

	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/policytest"
)

func TestAConditionThatWasNotWrittenIsWrittenByTheNextTry(t *testing.T) {
	t.Parallel()
	reasons := framework.NewReasons(0)
	set := policytest.Live(1, func() *framework.Profile { return policytest.Default(reasons) })
	f, now := &flood{}, time.Unix(1e9, 0)
	s, err := New(Config{
		Source: f, Binder: f, Reasons: reasons, Set: func() *framework.LiveSet { return set }, Clock: func() time.Time { return now },
	})
	if err != nil {
		t.Fatal(err)
	}
	pod := policytest.Pod("p", "1", "1Gi", nil)
	s.core.apply([]Event{{Resource: "pods", Object: pod}}, s.now())
	// try decides about the pod, which fits nowhere, and has its conditions end so.
	try := func(err error) int {
		now = now.Add(time.Hour)
		if !s.core.step(t.Context()) {
			t.Fatal("the pod was not tried")
		}
		list := s.core.out.conditions
		s.core.out.conditions = nil
		r := results{kind: conditions, job: job{conditions: list}}
		for range list {
			r.errs = append(r.errs, err)
		}
		s.finish(r)
		return len(list)
	}
	for i, tt := range []struct {
		err  error
		want int
	}{{errors.New("the store is full"), 1}, {nil, 1}, {nil, 0}} {
		if got := try(tt.err); got != tt.want {
			t.Errorf("try %d wrote %d conditions, want %d", i+1, got, tt.want)
		}
	}
}
