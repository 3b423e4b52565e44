package admission

import (
	"context"
	"sync/atomic"

	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/auth/view"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
)

// priorities gives pods the value of their class.
type priorities struct {
	objects view.Objects
	// standard is the class of pods that name none, as of some version.
	standard atomic.Pointer[standardClass]
}

type standardClass struct {
	version int64
	class   *schedulingv1.PriorityClass
}

func (p *priorities) admit(ctx context.Context, a *registry.Attributes) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok {
		return nil
	}
	if old, ok := a.Old.(*corev1.Pod); ok && whole(a, registry.Update) {
		keepPriority(pod, old)
		return nil
	}
	if !whole(a, registry.Create) {
		return nil
	}
	class, err := p.classOf(ctx, a, pod.Spec.PriorityClassName)
	if err != nil {
		return err
	}
	return setPriority(a, pod, class)
}

func keepPriority(pod, old *corev1.Pod) {
	if pod.Spec.Priority == nil {
		pod.Spec.Priority = old.Spec.Priority
	}
	if pod.Spec.PreemptionPolicy == nil {
		pod.Spec.PreemptionPolicy = old.Spec.PreemptionPolicy
	}
}

// none is the class of a cluster without a default one.
var none = &schedulingv1.PriorityClass{}

func (p *priorities) classOf(ctx context.Context, a *registry.Attributes, name string) (*schedulingv1.PriorityClass, error) {
	if name == "" {
		return p.defaultClass(ctx)
	}
	class, err := view.Get[*schedulingv1.PriorityClass](ctx, p.objects, view.PriorityClasses, "", name)
	if view.Missing(err) {
		return nil, forbid(a, "no PriorityClass with name %v was found", name)
	}
	return class, err
}

// defaultClass is the global default; of several the lowest counts.
func (p *priorities) defaultClass(ctx context.Context) (*schedulingv1.PriorityClass, error) {
	version := p.objects.Version(view.PriorityClasses)
	if known := p.standard.Load(); known != nil && known.version == version {
		return known.class, nil
	}
	all, err := view.List[*schedulingv1.PriorityClass](ctx, p.objects, view.PriorityClasses, "")
	if err != nil {
		return nil, err
	}
	found := none
	for _, class := range all {
		if class.GlobalDefault && (found == none || class.Value < found.Value) {
			found = class
		}
	}
	p.standard.Store(&standardClass{version, found})
	return found, nil
}

func setPriority(a *registry.Attributes, pod *corev1.Pod, class *schedulingv1.PriorityClass) error {
	if pod.Spec.Priority != nil && *pod.Spec.Priority != class.Value {
		return forbid(a, "the integer value of priority (%d) must not be provided in pod spec; priority admission controller computed %d from the given PriorityClass name", *pod.Spec.Priority, class.Value)
	}
	policy := corev1.PreemptLowerPriority
	if class.PreemptionPolicy != nil {
		policy = *class.PreemptionPolicy
	}
	if pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy != policy {
		return forbid(a, "the string value of PreemptionPolicy (%s) must not be provided in pod spec; priority admission controller computed %s from the given PriorityClass name", *pod.Spec.PreemptionPolicy, policy)
	}
	value := class.Value
	pod.Spec.PriorityClassName, pod.Spec.Priority, pod.Spec.PreemptionPolicy = class.Name, &value, &policy
	return nil
}

func (p *priorities) validateClass(ctx context.Context, a *registry.Attributes) error {
	class, ok := a.Object.(*schedulingv1.PriorityClass)
	if !ok || !class.GlobalDefault || !whole(a, registry.Create, registry.Update) {
		return nil
	}
	other, err := p.defaultClass(ctx)
	if err != nil {
		return err
	}
	if other != none && other.Name != class.Name {
		return forbid(a, "PriorityClass %v is already marked as default. Only one default can exist", other.Name)
	}
	return nil
}
