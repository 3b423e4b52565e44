package gate

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/abi"
)

// stale is how old lastProbeTime may grow while the answers stay the same: to
// write each of them would keep the store and all watchers busy. It is how often
// nodes report an unchanged status.
const stale = 5 * time.Minute

// withCondition returns the pod with the verdict as its condition. A pod that
// has it already, and not for long, is returned as it is: an unchanged answer
// writes nothing.
func withCondition(pod *v1.Pod, kind v1.PodConditionType, v abi.Readiness, now time.Time) *v1.Pod {
	next := v1.PodCondition{
		Type: kind, Status: v1.ConditionStatus(v.Status), Reason: v.Reason, Message: v.Message,
		LastProbeTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(now),
		ObservedGeneration: pod.Generation,
	}
	for i := range pod.Status.Conditions {
		have := &pod.Status.Conditions[i]
		if have.Type != kind {
			continue
		}
		if have.Status == next.Status && have.Reason == next.Reason && have.Message == next.Message && now.Sub(have.LastProbeTime.Time) < stale {
			return pod
		}
		if have.Status == next.Status {
			next.LastTransitionTime = have.LastTransitionTime
		}
		pod = pod.DeepCopy()
		pod.Status.Conditions[i] = next
		return pod
	}
	pod = pod.DeepCopy()
	pod.Status.Conditions = append(pod.Status.Conditions, next)
	return pod
}
