package admission

import (
	"context"

	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/auth/view"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/kubernetes/pkg/apis/core"
	conversion "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/util/tolerations"
)

// runtimeClasses gives pods what their RuntimeClass costs, and keeps them to the
// nodes that have it.
type runtimeClasses struct{ objects view.Objects }

func (r runtimeClasses) admit(ctx context.Context, a *registry.Attributes) error {
	pod, class, err := r.classOf(ctx, a)
	if err != nil || class == nil {
		return err
	}
	if class.Overhead != nil && len(class.Overhead.PodFixed) > 0 {
		if len(pod.Spec.Overhead) > 0 && !equality.Semantic.DeepEqual(class.Overhead.PodFixed, pod.Spec.Overhead) {
			return forbid(a, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
		}
		pod.Spec.Overhead = class.Overhead.PodFixed.DeepCopy()
	}
	if class.Scheduling == nil {
		return nil
	}
	if err := selectNodes(a, pod, class.Scheduling.NodeSelector); err != nil {
		return err
	}
	return tolerate(pod, class.Scheduling.Tolerations)
}

func (r runtimeClasses) validate(ctx context.Context, a *registry.Attributes) error {
	pod, class, err := r.classOf(ctx, a)
	switch {
	case err != nil || pod == nil:
		return err
	case class != nil && class.Overhead != nil:
		if !equality.Semantic.DeepEqual(class.Overhead.PodFixed, pod.Spec.Overhead) {
			return forbid(a, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
		}
	case pod.Spec.Overhead != nil:
		return forbid(a, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")
	}
	return nil
}

// classOf is the pod that is created, nil of other writes, and its class, nil if it
// names none.
func (r runtimeClasses) classOf(ctx context.Context, a *registry.Attributes) (*corev1.Pod, *nodev1.RuntimeClass, error) {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok || !whole(a, registry.Create) {
		return nil, nil, nil
	}
	if pod.Spec.RuntimeClassName == nil {
		return pod, nil, nil
	}
	class, err := view.Get[*nodev1.RuntimeClass](ctx, r.objects, view.RuntimeClasses, "", *pod.Spec.RuntimeClassName)
	if view.Missing(err) {
		return nil, nil, forbid(a, "pod rejected: RuntimeClass %q not found", *pod.Spec.RuntimeClassName)
	}
	return pod, class, err
}

func selectNodes(a *registry.Attributes, pod *corev1.Pod, selector map[string]string) error {
	if len(selector) > 0 && pod.Spec.NodeSelector == nil {
		pod.Spec.NodeSelector = map[string]string{}
	}
	for key, want := range selector {
		if have, ok := pod.Spec.NodeSelector[key]; ok && have != want {
			return forbid(a, "conflict: runtimeClass.scheduling.nodeSelector[%s] = %s; pod.spec.nodeSelector[%s] = %s", key, want, key, have)
		}
		pod.Spec.NodeSelector[key] = want
	}
	return nil
}

// tolerate adds a class's tolerations, but for those that the pod's own go beyond.
func tolerate(pod *corev1.Pod, more []corev1.Toleration) error {
	var lists [2][]core.Toleration
	for i, list := range [][]corev1.Toleration{pod.Spec.Tolerations, more} {
		lists[i] = make([]core.Toleration, len(list))
		for j := range list {
			if err := conversion.Convert_v1_Toleration_To_core_Toleration(&list[j], &lists[i][j], nil); err != nil {
				return err
			}
		}
	}
	merged := tolerations.MergeTolerations(lists[0], lists[1])
	pod.Spec.Tolerations = make([]corev1.Toleration, len(merged))
	for i := range merged {
		if err := conversion.Convert_core_Toleration_To_v1_Toleration(&merged[i], &pod.Spec.Tolerations[i], nil); err != nil {
			return err
		}
	}
	return nil
}
