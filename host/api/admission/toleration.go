package admission

import (
	"context"

	"github.com/berth-dev/berth/host/api/registry"

	corev1 "k8s.io/api/core/v1"
)

// outage is how long a pod stays bound to a node that is gone.
const outage int64 = 300

// defaultTolerations lets pods stay for a while on nodes that are not ready or
// unreachable, unless they say themselves what to do.
func defaultTolerations(_ context.Context, a *registry.Attributes) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok || !whole(a, registry.Create, registry.Update) {
		return nil
	}
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		if speaksOf(pod.Spec.Tolerations, key) {
			continue
		}
		seconds := outage
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
			Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds,
		})
	}
	return nil
}

func speaksOf(tolerations []corev1.Toleration, key string) bool {
	for i := range tolerations {
		t := &tolerations[i]
		if (t.Key == key || t.Key == "") && (t.Effect == corev1.TaintEffectNoExecute || t.Effect == "") {
			return true
		}
	}
	return false
}

// taintNew keeps pods off a new node until the node controller has seen it
// ready. A node that says so itself as it is created needs no such wait.
func taintNew(_ context.Context, a *registry.Attributes) error {
	node, ok := a.Object.(*corev1.Node)
	if !ok || !whole(a, registry.Create) {
		return nil
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			return nil
		}
	}
	for _, taint := range node.Spec.Taints {
		if taint.Key == corev1.TaintNodeNotReady && taint.Effect == corev1.TaintEffectNoSchedule {
			return nil
		}
	}
	node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule})
	return nil
}
