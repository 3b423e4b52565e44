package gate

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/abi"
)

var start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func gatedPod(name string, gates ...v1.PodConditionType) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: v1.PodSpec{NodeName: "n1"}}
	for _, g := range gates {
		pod.Spec.ReadinessGates = append(pod.Spec.ReadinessGates, v1.PodReadinessGate{ConditionType: g})
	}
	return pod
}

func names(keys []key) []string {
	var out []string
	for _, k := range keys {
		out = append(out, k.pod.Name+"/"+string(k.condition))
	}
	return out
}

func TestQueue(t *testing.T) {
	t.Parallel()
	web := types.NamespacedName{Namespace: "default", Name: "web"}
	tests := []struct {
		name string
		fill func(*Queue)
		at   time.Duration
		want []string
	}{
		{"a changed pod's gates are due at once", func(b *Queue) { b.Changed(gatedPod("web", "a"), start) }, 0, []string{"web/a"}},
		{"a pod without gates never is", func(b *Queue) { b.Changed(gatedPod("web"), start) }, time.Hour, nil},
		{"a pod without a node is not yet", func(b *Queue) {
			p := gatedPod("web", "a")
			p.Spec.NodeName = ""
			b.Changed(p, start)
		}, time.Hour, nil},
		{"a pod that has ended is forgotten", func(b *Queue) {
			b.Changed(gatedPod("web", "a"), start)
			p := gatedPod("web", "a")
			p.Status.Phase = v1.PodSucceeded
			b.Changed(p, start)
		}, time.Hour, nil},
		{"again waits for its time", func(b *Queue) {
			b.Changed(gatedPod("web", "a"), start)
			b.Due(start, 10)
			b.Requeue(web, "a", start.Add(time.Minute))
		}, 59 * time.Second, nil},
		{"again comes when its time has come", func(b *Queue) {
			b.Changed(gatedPod("web", "a"), start)
			b.Due(start, 10)
			b.Requeue(web, "a", start.Add(time.Minute))
		}, time.Minute, []string{"web/a"}},
		{"an earlier time wins", func(b *Queue) {
			b.Changed(gatedPod("web", "a"), start.Add(time.Minute))
			b.Requeue(web, "a", start)
			b.Requeue(web, "a", start.Add(time.Hour))
		}, 0, []string{"web/a"}},
		{"a swap makes all due", func(b *Queue) {
			b.Changed(gatedPod("web", "a"), start)
			b.Due(start, 10)
			b.All(start)
		}, 0, []string{"web/a"}},
		{"a forgotten pod is not due", func(b *Queue) {
			b.Changed(gatedPod("web", "a"), start)
			b.Forget(web)
		}, time.Hour, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := NewQueue()
			tt.fill(b)
			if diff := cmp.Diff(tt.want, names(b.Due(start.Add(tt.at), 10))); diff != "" {
				t.Errorf("Due(%v) differs (-want +got):\n%s", tt.at, diff)
			}
		})
	}
}

func TestTheQueueHoldsNothingOfForgottenPods(t *testing.T) {
	t.Parallel()
	b := NewQueue()
	for range 100 {
		p := gatedPod("web", "a", "b")
		b.Changed(p, start)
		b.Due(start, 1)
		b.Forget(types.NamespacedName{Namespace: p.Namespace, Name: p.Name})
	}
	if b.Len() != 0 || len(b.due) != 0 || len(b.byPod) != 0 {
		t.Errorf("the queue holds %d entries, %d due, %d pods, want none", b.Len(), len(b.due), len(b.byPod))
	}
}

func TestWithCondition(t *testing.T) {
	t.Parallel()
	pod := gatedPod("web", "a")
	first := withCondition(pod, "a", abi.Readiness{Status: "False", Reason: "Waiting"}, start)
	same := withCondition(first, "a", abi.Readiness{Status: "False", Reason: "Waiting"}, start.Add(time.Minute))
	if same != first {
		t.Error("an unchanged verdict makes a new pod")
	}
	reworded := withCondition(first, "a", abi.Readiness{Status: "False", Reason: "StillWaiting"}, start.Add(time.Minute))
	if got := reworded.Status.Conditions[0]; !got.LastTransitionTime.Time.Equal(start) || !got.LastProbeTime.Time.Equal(start.Add(time.Minute)) {
		t.Errorf("a new reason moves the transition time: %v", got)
	}
	turned := withCondition(reworded, "a", abi.Readiness{Status: "True"}, start.Add(time.Hour))
	if got := turned.Status.Conditions[0]; !got.LastTransitionTime.Time.Equal(start.Add(time.Hour)) {
		t.Errorf("a new status keeps the transition time: %v", got)
	}
	if len(pod.Status.Conditions) != 0 {
		t.Error("the pod that was handed in has changed")
	}
}
