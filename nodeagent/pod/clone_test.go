package pod

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
)

func TestACloneSharesNothingThatChanges(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	whole := func() *Record {
		r := New(&v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c"}}}}, now)
		r.Ended, r.Rejected, r.Held = &Verdict{Reason: "a"}, &Verdict{Reason: "b"}, &Held{Reason: "c"}
		r.Conditions = []v1.PodCondition{{Type: v1.PodReady}}
		c := r.Containers["c"]
		c.Wait, c.Last, c.Applied = &Wait{Reason: "w"}, &Termination{Reason: "t"}, &v1.ResourceRequirements{}
		return r
	}
	r := whole()
	other := r.Clone()
	if diff := cmp.Diff(r, other); diff != "" {
		t.Fatalf("the clone differs (-want +got):\n%s", diff)
	}
	other.Ended.Reason, other.Rejected.Reason, other.Held.Reason = "x", "x", "x"
	other.Conditions[0].Status = v1.ConditionTrue
	c := other.Containers["c"]
	c.Phase, c.Wait.Reason, c.Last.Reason = Running, "x", "x"
	c.Applied.Limits = v1.ResourceList{}
	other.Containers["d"] = &Container{}
	if diff := cmp.Diff(whole(), r); diff != "" {
		t.Errorf("what was done to the clone is seen (-want +got):\n%s", diff)
	}
}
