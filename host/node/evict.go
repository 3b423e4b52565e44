package node

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EvictAt says when the pod must leave a node with these taints: at once, when
// the shortest of its tolerations of a NoExecute taint ends, or never (ok is
// false). A toleration without seconds holds for good; the time counts from
// the moment at which both were there: since says it of taints that do not say
// when they were added.
func EvictAt(pod *v1.Pod, taints []v1.Taint, since func(*v1.Taint) time.Time) (at time.Time, ok bool) {
	for i := range taints {
		taint := &taints[i]
		if taint.Effect != v1.TaintEffectNoExecute {
			continue
		}
		left, forever := tolerated(pod, taint)
		if forever {
			continue
		}
		from := bound(pod)
		switch {
		case taint.TimeAdded == nil:
			from = since(taint)
		case taint.TimeAdded.After(from):
			from = taint.TimeAdded.Time
		}
		if until := from.Add(left); !ok || until.Before(at) {
			at, ok = until, true
		}
	}
	return at, ok
}

// bound is when the pod came to its node.
func bound(pod *v1.Pod) time.Time {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == v1.PodScheduled && c.Status == v1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return pod.CreationTimestamp.Time
}

// tolerated returns for how long the pod tolerates the taint, as the first of the
// tolerations that match it says: zero if none does.
func tolerated(pod *v1.Pod, taint *v1.Taint) (left time.Duration, forever bool) {
	for i := range pod.Spec.Tolerations {
		t := &pod.Spec.Tolerations[i]
		switch {
		case !tolerates(t, taint):
			continue
		case t.TolerationSeconds == nil:
			return 0, true
		}
		return time.Duration(max(*t.TolerationSeconds, 0)) * time.Second, false
	}
	return 0, false
}

func tolerates(t *v1.Toleration, taint *v1.Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect {
		return false
	}
	if t.Key != "" && t.Key != taint.Key {
		return false
	}
	if t.Operator == v1.TolerationOpExists {
		return true
	}
	return t.Key != "" && t.Value == taint.Value
}

// Abandoned says why a pod must be removed without its node's help, or "" if
// it must not: its node does not exist, or it is terminating and was never
// bound, or its node is not ready and out of service for good. One that is
// removed already, save for finalizers, is left to whoever set these.
func Abandoned(pod *v1.Pod, node *v1.Node) string {
	if ended(pod) && held(pod) {
		return ""
	}
	if pod.Spec.NodeName == "" {
		if pod.DeletionTimestamp != nil {
			return "PodGC: terminating and never bound"
		}
		return ""
	}
	if node == nil {
		return "PodGC: node no longer exists"
	}
	if pod.DeletionTimestamp == nil || serves(node) {
		return "" // a node that is ready ends it by itself
	}
	for i := range node.Spec.Taints {
		if node.Spec.Taints[i].Key == v1.TaintNodeOutOfService {
			return "PodGC: node is out of service"
		}
	}
	return ""
}

// surplus are the pods that have ended beyond as many as are kept: those that were
// evicted first, then the oldest. 0 keeps all.
func surplus(pods []*v1.Pod, kept int) []*v1.Pod {
	all := slices.DeleteFunc(slices.Clone(pods), func(p *v1.Pod) bool { return !ended(p) || p.DeletionTimestamp != nil })
	if kept == 0 || len(all) <= kept {
		return nil
	}
	slices.SortFunc(all, func(a, b *v1.Pod) int {
		if was := evicted(a); was != evicted(b) {
			if was {
				return -1
			}
			return 1
		}
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all[:len(all)-kept]
}

// evicted tells whether a node ended the pod for want of a resource.
func evicted(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodFailed && pod.Status.Reason == "Evicted"
}

// held tells whether finalizers alone keep the pod.
func held(pod *v1.Pod) bool {
	grace := pod.DeletionGracePeriodSeconds
	return pod.DeletionTimestamp != nil && grace != nil && *grace == 0 && len(pod.Finalizers) > 0
}

// notReady returns the pod with Ready=False, since nobody can tell any more.
func notReady(pod *v1.Pod, now time.Time) *v1.Pod {
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type != v1.PodReady || c.Status != v1.ConditionTrue {
			continue
		}
		pod = pod.DeepCopy()
		c = &pod.Status.Conditions[i]
		c.Status, c.Reason = v1.ConditionFalse, "NodeNotReady"
		c.LastTransitionTime = metav1.NewTime(now)
		return pod
	}
	return pod
}
