package breaker

import (
	"testing"
	"time"
)

var start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func TestBreaker(t *testing.T) {
	t.Parallel()
	limits := Limits{Failures: 3, Window: time.Minute, Rest: 10 * time.Second, MaxRest: 30 * time.Second, Trial: 2}
	type step struct {
		at    time.Duration
		fail  bool
		want  State
		allow bool
	}
	tests := []struct {
		name  string
		steps []step
	}{
		{"failures within the window open it", []step{
			{0, true, Closed, true}, {time.Second, true, Closed, true}, {2 * time.Second, true, Open, false},
		}},
		{"failures far apart do not", []step{
			{0, true, Closed, true}, {50 * time.Second, true, Closed, true}, {70 * time.Second, true, Closed, true},
		}},
		{"after its rest it tries, and closes when the trial is good", []step{
			{0, true, Closed, true}, {0, true, Closed, true}, {0, true, Open, false},
			{10 * time.Second, false, HalfOpen, true}, {10 * time.Second, false, Closed, true},
		}},
		{"a trial that fails rests for twice as long", []step{
			{0, true, Closed, true}, {0, true, Closed, true}, {0, true, Open, false},
			{10 * time.Second, true, Open, false},
			{29 * time.Second, true, Open, false},
			{30 * time.Second, false, HalfOpen, true},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := New(limits)
			for i, s := range tt.steps {
				now := start.Add(s.at)
				if b.Allow(now) {
					if s.fail {
						b.Fail(now)
					} else {
						b.Succeed()
					}
				}
				if b.State() != s.want || b.Allow(now) != s.allow {
					t.Fatalf("step %d: state %v, allowed %v, want %v, %v", i, b.State(), b.Allow(now), s.want, s.allow)
				}
			}
		})
	}
}

func TestACopyGoesItsOwnWay(t *testing.T) {
	t.Parallel()
	one := New(Limits{Failures: 3, Window: time.Minute, Rest: time.Second, MaxRest: time.Second, Trial: 1})
	one.Fail(start)
	one.Fail(start)
	other := one.Copy()
	if other.Fail(start); other.State() != Open || one.State() != Closed {
		t.Errorf("after a third failure the copy is %s and the other %s, want Open and Closed", other.State(), one.State())
	}
	if one.Fail(start); one.State() != Open {
		t.Errorf("after its own third it is %s", one.State())
	}
}
