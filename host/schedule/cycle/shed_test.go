package cycle

import (
	"context"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/policytest"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// hungry is a policy that takes much for each pod, or for each question of what
// would be.
type hungry struct {
	*policytest.Native
	aPod, aQuestion, burnt int64
	shed                   int
}

func (h *hungry) Pod(ctx context.Context, log snapshot.Log, pod *snapshot.Pod, now int64) (framework.Answer, error) {
	h.burnt += h.aPod
	return h.Native.Pod(ctx, log, pod, now)
}

func (h *hungry) WhatIf(ctx context.Context, questions []framework.WhatIf, verdicts []framework.ReasonID) error {
	h.burnt += h.aQuestion * int64(len(questions))
	return h.Native.WhatIf(ctx, questions, verdicts)
}

func (h *hungry) Burnt() int64 {
	burnt := h.burnt
	h.burnt = 0
	return burnt
}

func (h *hungry) Shed(_, _, _ int64) { h.shed++ }

// TestExplainingIsNoPartOfACycle holds that what policies took to explain pods,
// between two cycles, is not held against them.
func TestExplainingIsNoPartOfACycle(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, test := range []struct {
		name string
		aPod int64
		want int
	}{
		{"a frugal policy, explained often", framework.CycleFuel(1, 0) / 2, 0},
		{"one that takes too much in a cycle", framework.CycleFuel(1, 0) * 2, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			reasons := framework.NewReasons(0)
			h := &hungry{Native: policytest.Fits(reasons), aPod: test.aPod}
			p := &framework.Profile{Name: "default-scheduler", Predicates: []framework.ProfilePredicate{{Policy: h}}}
			c := snapshot.New(1 << 11)
			c.UpsertNode(policytest.Node("a", "4", "8Gi", 110, nil))
			d := New(Options{Reasons: reasons})
			pod := snapshot.NewPod(policytest.Pod("p", "1", "1Gi", nil))
			for range 10 {
				if _, err := Judge(ctx, p, reasons, c, pod, 0); err != nil {
					t.Fatal(err)
				}
			}
			d.Decide(ctx, Input{Set: policytest.Set(1, p), Profile: p, Log: c, Pod: pod})
			d.End()
			if h.shed != test.want {
				t.Errorf("it was shed %d times, want %d", h.shed, test.want)
			}
		})
	}
}

// TestQuestionsOfWhatWouldBeCountInACycle holds that a cycle may take more where
// there is more to ask of preemption.
func TestQuestionsOfWhatWouldBeCountInACycle(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	const victims = 1000
	for _, test := range []struct {
		name      string
		aQuestion int64
		want      int
	}{{"a frugal policy", 160_000, 0}, {"one that takes too much", 300_000, 1}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			reasons := framework.NewReasons(0)
			h := &hungry{Native: policytest.Fits(reasons), aQuestion: test.aQuestion}
			p := &framework.Profile{Name: "default-scheduler", Predicates: []framework.ProfilePredicate{{Policy: h}}}
			c := snapshot.New(1 << 14)
			c.UpsertNode(policytest.Node("a", "1000", "8Ti", 2000, nil))
			for i := range victims {
				c.Place(snapshot.NewPod(policytest.Pod(fmt.Sprint("low", i), "1", "1Gi", nil)), "a")
			}
			d := New(Options{Reasons: reasons})
			important := policytest.Pod("important", "500", "1Gi", func(p *v1.Pod) { p.Spec.Priority = new(int32(10)) })
			got := d.Decide(ctx, Input{Set: policytest.Set(1, p), Profile: p, Log: c, Pod: snapshot.NewPod(important)})
			if _, ok := d.Preempt(ctx, Room{}); got.Slot >= 0 || !ok {
				t.Fatalf("the pod got row %d, and room could be made: %t", got.Slot, ok)
			}
			d.End()
			if h.shed != test.want {
				t.Errorf("it was shed %d times, want %d", h.shed, test.want)
			}
		})
	}
}
