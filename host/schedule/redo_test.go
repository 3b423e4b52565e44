package schedule

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/policytest"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// TestEveryDecisionIsMadeAgain lets a core run through everything: budgets come,
// change and go, pods start, policies fail. Whatever the cluster has become
// meanwhile, each decision that the log holds comes out again as it was, made by
// policies that know nothing but the past.
func TestEveryDecisionIsMadeAgain(t *testing.T) {
	t.Parallel()
	var seen struct{ made, vain, broke, failed, started, foreseen, nominated int }
	for seed := range uint64(24) {
		w := newWorld(t, seed+4000)
		told := map[uint64]string{}
		for range 700 {
			w.now = w.now.Add(time.Duration(w.r.IntN(200)) * time.Millisecond)
			w.move()
			w.disrupt()
			if w.r.IntN(25) != 0 {
				continue
			}
			for _, trace := range w.core.traces.Last(12) {
				view, ok := w.core.cluster.At(trace.Position)
				if !ok {
					continue
				}
				is, err := Redo(t.Context(), policytest.Default(w.core.reasons), w.core.reasons, view, &trace)
				if differs := Differences(&trace, &is); err != nil || len(differs) > 0 {
					t.Fatalf("seed %d, decision %d about %s: %v, %v\n%+v", seed, trace.Number, trace.Name, err, differs, trace.Failures)
				}
				now := fmt.Sprint(trace.Made, is.Made, trace.Message)
				if was, ok := told[trace.Number]; ok && was != now {
					t.Fatalf("seed %d: decision %d is told as %s, and was as %s", seed, trace.Number, now, was)
				} else if ok {
					continue
				}
				told[trace.Number] = now
				if p := trace.Preemption; p != nil {
					seen.made += min(len(p.Victims), 1)
					seen.vain += 1 - min(len(p.Victims), 1)
					seen.started += min(len(p.Started), 1)
					seen.broke += min(len(slices.Concat(breaks(p)...)), 1)
				}
				seen.failed += min(len(trace.Failures), 1)
				seen.nominated += min(len(trace.Nominated), 1)
				for _, f := range trace.Failures {
					seen.foreseen += min(f.Foreseeing, 1)
				}
			}
		}
	}
	t.Logf("%+v", seen)
	if seen.made < 20 || seen.vain == 0 || seen.broke < 5 || seen.failed < 20 || seen.started < 5 || seen.foreseen == 0 || seen.nominated < 20 {
		t.Errorf("too little of what counts has happened: %+v", seen)
	}
}

func breaks(p *Preemption) (all [][]string) {
	for _, v := range p.Victims {
		all = append(all, v.Breaks)
	}
	return all
}

// disrupt changes what preemption reckons with beside the cluster.
func (w *world) disrupt() {
	switch w.r.IntN(12) {
	case 0:
		b := budget(fmt.Sprint("budget-", w.r.IntN(3)), int32(w.r.IntN(2)), map[string]string{"app": fmt.Sprint(w.r.IntN(3))})
		b.Status.DisruptedPods = map[string]metav1.Time{fmt.Sprint("p", w.r.IntN(40)): {}}
		w.tell("budgets", w.r.IntN(6) == 0, b)
	case 1, 2:
		w.start()
	case 3:
		w.n++
		p := policytest.Pod(fmt.Sprint("p", w.n), fmt.Sprintf("%dm", 300+300*w.r.IntN(3)), "256Mi", func(p *v1.Pod) {
			priority := int32(5 + w.r.IntN(3))
			p.Spec.Priority = &priority
		})
		w.pods[p.UID] = p
		w.tell("pods", false, p)
	}
}

// start tells of a pod that it runs.
func (w *world) start() {
	var bound []types.UID
	for uid, p := range w.pods {
		if p.Spec.NodeName != "" && p.Status.StartTime == nil {
			bound = append(bound, uid)
		}
	}
	if len(bound) == 0 {
		return
	}
	slices.Sort(bound)
	p := w.pods[bound[w.r.IntN(len(bound))]].DeepCopy()
	p.Status.StartTime = &metav1.Time{Time: w.now.Add(-time.Duration(w.r.IntN(5000)) * time.Millisecond).Truncate(time.Second)}
	w.pods[p.UID] = p
	w.tell("pods", false, p)
}

func budget(name string, allowed int32, match map[string]string) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: match}},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
	}
}

func TestStartsArePackedAndUnpacked(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 50 {
		c := snapshot.New(0)
		starts := map[types.UID]int64{}
		for n := range 6 {
			c.UpsertNode(policytest.Node(fmt.Sprint("n", n), "64", "64Gi", 110, nil))
			for i := range r.IntN(20) {
				pod := snapshot.NewPod(policytest.Pod(fmt.Sprintf("p%d-%d", n, i), "1m", "1Mi", nil))
				c.Place(pod, fmt.Sprint("n", n))
				at := time.Unix(1.7e9+r.Int64N(1e6), 0)
				switch r.IntN(8) {
				case 0:
					continue
				case 1:
					starts[pod.UID()] = 1<<63 - 1
					continue
				case 2:
					if round%2 == 0 {
						at = at.Add(time.Duration(r.IntN(1e9)))
					}
				}
				starts[pod.UID()] = at.UnixNano()
			}
		}
		packed := packStarts(c, starts)
		got, err := packed.Of(c)
		if err != nil || len(got) != len(starts) {
			t.Fatalf("%d starts come back as %d, %v", len(starts), len(got), err)
		}
		for uid, at := range starts {
			if got[uid] != at {
				t.Fatalf("%s started at %d, comes back as %d", uid, at, got[uid])
			}
		}
		if most := 3 + 6*2 + 6*len(starts); round%2 == 1 && len(packed) > most {
			t.Errorf("%d starts take %d bytes, want at most %d", len(starts), len(packed), most)
		}
		for cut := range packed {
			_, _ = packed[:cut].Of(c)
		}
	}
}

func TestDifferencesAreTold(t *testing.T) {
	t.Parallel()
	w := newStand(t)
	was := w.decide("urgent", 9, "1")
	if was.Made == "" || len(was.Preemption.Victims) != 1 {
		t.Fatalf("the decision made no room: %+v", was)
	}
	tests := []struct {
		name   string
		change func(*Trace)
		want   []string
	}{
		{"nothing", func(*Trace) {}, nil},
		{"another node", func(t *Trace) { t.Made = "b" }, []string{"room made on: a then, b now"}},
		{"nothing to be made", func(t *Trace) { t.Made = "" }, []string{"room made on: a then, none now"}},
		{"another victim", func(t *Trace) { t.Preemption = &Preemption{} }, []string{"preempted: default/low (against guard) then, none now"}},
		{"it fits", func(t *Trace) { t.Outcome, t.Node, t.Made, t.Preemption = Placed, "b", "", nil }, []string{
			"outcome: Refused then, Placed now", "node: none then, b now", "room made on: a then, none now",
		}},
	}
	for _, tt := range tests {
		is := was
		tt.change(&is)
		if got := Differences(&was, &is); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// A pod that several budgets protect names them in one order, then and now,
// whichever of them was met first.
func TestBudgetsAreNamedInOneOrder(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	placed := func(name string, priority int32, labels map[string]string) Event {
		return Event{Resource: "pods", Object: policytest.Pod(name, "1", "1Gi", func(p *v1.Pod) {
			p.Spec.NodeName, p.Spec.Priority, p.Labels = "b", &priority, labels
		})}
	}
	s.apply([]Event{
		{Resource: "nodes", Object: policytest.Node("b", "2", "4Gi", 10, nil)},
		{Resource: "nodes", Deleted: true, Object: policytest.Node("a", "1", "4Gi", 10, nil)},
		placed("first", 5, map[string]string{"tier": "x"}),
		placed("second", 4, map[string]string{"tier": "x", "app": "low"}),
		{Resource: "poddisruptionbudgets.policy", Object: budget("tier", 0, map[string]string{"tier": "x"})},
	}, 0)
	was := s.decide("urgent", 9, "2")
	if got, want := victims(was.Preemption), "default/first (against tier), default/second (against guard, tier)"; got != want {
		t.Fatalf("preempted are %s, want %s", got, want)
	}
	view, ok := s.cluster.At(was.Position)
	if !ok {
		t.Fatal("the decision is forgotten")
	}
	is, err := Redo(t.Context(), policytest.Default(s.reasons), s.reasons, view, &was)
	if differs := Differences(&was, &is); err != nil || len(differs) > 0 {
		t.Errorf("made again: %q, %v", differs, err)
	}
}

// stand is a core of a node with a pod on it that a budget protects.
type stand struct {
	*core
	t *testing.T
}

func newStand(t *testing.T) *stand {
	reasons := framework.NewReasons(0)
	set := policytest.Set(1, policytest.Default(reasons))
	s := &stand{t: t, core: newCore(Config{Set: func() *framework.LiveSet { return set }, Reasons: reasons, Clock: func() time.Time { return time.Unix(1e9, 0) }, LogBytes: 1 << 20})}
	s.apply([]Event{
		{Resource: "nodes", Object: policytest.Node("a", "1", "4Gi", 10, nil)},
		{Resource: "pods", Object: policytest.Pod("low", "1", "1Gi", func(p *v1.Pod) {
			p.Spec.NodeName, p.Labels = "a", map[string]string{"app": "low"}
		})},
		{Resource: "poddisruptionbudgets.policy", Object: budget("guard", 0, map[string]string{"app": "low"})},
	}, 0)
	return s
}

// decide makes a decision about a pod of that priority that asks for so many CPUs.
func (s *stand) decide(name string, priority int32, cpus string) Trace {
	s.t.Helper()
	s.apply([]Event{{Resource: "pods", Object: policytest.Pod(name, cpus, "1Gi", func(p *v1.Pod) { p.Spec.Priority = &priority })}}, 0)
	if !s.step(s.t.Context()) {
		s.t.Fatal("nothing is decided")
	}
	return s.traces.Last(1)[0]
}
