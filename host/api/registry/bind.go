package registry

import (
	"context"
	"fmt"
	"maps"

	"github.com/berth-dev/berth/host/store"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Claim reserves room on a node for a pod that a client binds there, or refuses
// it. done hears how the bind ended.
type Claim func(ctx context.Context, pod *corev1.Pod, node string) (done func(error), err error)

// bind puts a pod on a node. Berth's own scheduler binds by other ways, many
// pods at once.
func (reg *Registry) bind(ctx context.Context, r *Request, old *corev1.Pod, b *corev1.Binding) (err error) {
	if _, err := bound(old, b); err != nil || r.DryRun {
		return err
	}
	if reg.claim != nil {
		done, refused := reg.claim(ctx, old, b.Target.Name)
		if refused != nil {
			return refused
		}
		defer func() { done(err) }()
	}
	_, err = reg.store.Update(ctx, podKind.Key(r.Namespace, r.Name), func(o store.Object) (store.Object, error) {
		return bound(o.(*corev1.Pod), b)
	})
	return r.status(err)
}

// bound is the pod on its node. It shares memory with the old one.
func bound(old *corev1.Pod, b *corev1.Binding) (store.Object, error) {
	gr := podKind.GroupResource()
	conflict := func(format string, args ...any) error {
		return apierrors.NewConflict(gr, old.Name, fmt.Errorf(format, args...))
	}
	switch {
	case b.UID != "" && b.UID != old.UID:
		return nil, conflict("Precondition failed: UID in precondition: %v, UID in object meta: %v", b.UID, old.UID)
	case b.ResourceVersion != "" && b.ResourceVersion != old.ResourceVersion:
		return nil, conflict("Precondition failed: ResourceVersion in precondition: %v, ResourceVersion in object meta: %v", b.ResourceVersion, old.ResourceVersion)
	case old.DeletionTimestamp != nil:
		return nil, conflict("pod %s is being deleted, cannot be assigned to a host", old.Name)
	case old.Spec.NodeName != "":
		return nil, conflict("pod %v is already assigned to node %q", old.Name, old.Spec.NodeName)
	case len(old.Spec.SchedulingGates) != 0:
		return nil, conflict("pod %v has non-empty .spec.schedulingGates", old.Name)
	}
	pod := *old
	pod.Spec.NodeName = b.Target.Name
	pod.Labels = merged(old.Labels, b.Labels)
	pod.Annotations = merged(old.Annotations, b.Annotations)
	pod.Status.NominatedNodeName = ""
	pod.Status.Conditions = scheduled(old)
	return &pod, nil
}

func merged(old, add map[string]string) map[string]string {
	if len(add) == 0 {
		return old
	}
	all := make(map[string]string, len(old)+len(add))
	maps.Copy(all, old)
	maps.Copy(all, add)
	return all
}

// scheduled sets the condition PodScheduled.
func scheduled(old *corev1.Pod) []corev1.PodCondition {
	done := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: now(), ObservedGeneration: old.Generation}
	conditions := make([]corev1.PodCondition, 0, len(old.Status.Conditions)+1)
	for _, c := range old.Status.Conditions {
		if c.Type != corev1.PodScheduled {
			conditions = append(conditions, c)
		}
	}
	return append(conditions, done)
}

// BindPod answers pods/NAME/binding and the older bindings.
func (reg *Registry) BindPod(ctx context.Context, r *Request, b *corev1.Binding) error {
	if b.Target.Kind != "" && b.Target.Kind != "Node" && b.Target.Kind != "Minion" {
		return apierrors.NewBadRequest(fmt.Sprintf("target.kind: %q is not supported: pods are bound to a Node", b.Target.Kind))
	}
	if b.Target.Name == "" {
		return apierrors.NewBadRequest("target.name: Required value: name the node")
	}
	if r.Name == "" {
		r = r.named(r.Namespace, b.Name)
	}
	if b.Name != "" && b.Name != r.Name {
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", b.Name, r.Name))
	}
	old, err := reg.Get(ctx, r)
	if err != nil {
		return err
	}
	a := r.attributes(Create, nil, old)
	a.Subresource, a.Body = "binding", b
	if err := reg.ask(r.context(ctx), r, a); err != nil {
		return err
	}
	return reg.bind(ctx, r, old.(*corev1.Pod), b)
}

// ask has admission decide on something that changes no object by itself.
func (reg *Registry) ask(ctx context.Context, r *Request, a *Attributes) error {
	defer a.sendWarnings(r)
	if err := reg.admission.Admit(ctx, a); err != nil {
		a.rollback()
		return r.refused(err)
	}
	if err := reg.admission.Validate(ctx, a); err != nil {
		a.rollback()
		return r.refused(err)
	}
	return nil
}
