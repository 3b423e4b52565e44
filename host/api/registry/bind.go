package registry

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/berth-dev/berth/host/store"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// Binding puts one pod on one node.
type Binding struct {
	Namespace, Name string
	// UID of the pod that is meant; empty means whichever has the name.
	UID types.UID
	// ResourceVersion that the pod must have; empty means any.
	ResourceVersion string
	Node            string
	// Labels and Annotations are added to the pod's.
	Labels, Annotations map[string]string
}

// Bind assigns many pods in one transaction. An error belongs to the pod at its
// index; the others are bound. It is for the scheduler, so it asks no
// admission: bindings change nothing that admission rules over.
func (reg *Registry) Bind(ctx context.Context, bindings []Binding) []error {
	errs := make([]error, len(bindings))
	left := make([]int, len(bindings))
	for i := range left {
		left[i] = i
	}
	for len(left) > 0 {
		ops, at := reg.bindingOps(bindings, left, errs)
		if len(ops) == 0 {
			return errs
		}
		_, _, err := reg.store.Commit(ctx, ops...)
		if err == nil {
			return errs
		}
		left = reg.sortOut(bindings, at, err, errs)
	}
	return errs
}

// bindingOps makes the writes of those that can be bound as things stand; at
// tells which they are.
func (reg *Registry) bindingOps(bindings []Binding, left []int, errs []error) (ops []store.Op, at []int) {
	for _, i := range left {
		b := &bindings[i]
		key := podKind.Key(b.Namespace, b.Name)
		old, ok := reg.store.Get(key)
		if !ok {
			errs[i] = apierrors.NewNotFound(podKind.GroupResource(), b.Name)
			continue
		}
		pod, err := bound(old.(*corev1.Pod), b)
		if err != nil {
			errs[i] = err
			continue
		}
		ops = append(ops, store.Op{Kind: store.Update, Key: key, Object: pod, Expect: revision(old)})
		at = append(at, i)
	}
	return ops, at
}

// sortOut tells which bindings are worth another attempt after a transaction
// failed. The one that a store error names lost a race and is looked at anew;
// too large a transaction is halved by the caller's next round.
func (reg *Registry) sortOut(bindings []Binding, at []int, err error, errs []error) []int {
	var refused *store.Error
	if errors.As(err, &refused) {
		switch {
		case errors.Is(err, store.ErrConflict), errors.Is(err, store.ErrNotFound):
			return at
		case errors.Is(err, store.ErrTooLarge) && len(at) > 1:
			half := len(at) / 2
			for _, part := range [][]int{at[:half], at[half:]} {
				reg.bindPart(bindings, part, errs)
			}
			return nil
		}
	}
	for _, i := range at {
		b := &bindings[i]
		errs[i] = On("pods", b.Namespace, b.Name).status(err)
	}
	return nil
}

func (reg *Registry) bindPart(bindings []Binding, part []int, errs []error) {
	some := make([]Binding, len(part))
	for n, i := range part {
		some[n] = bindings[i]
	}
	for n, err := range reg.Bind(context.Background(), some) {
		errs[part[n]] = err
	}
}

// bound is the pod on its node. It shares memory with the old one.
func bound(old *corev1.Pod, b *Binding) (*corev1.Pod, error) {
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
	pod.Spec.NodeName = b.Node
	pod.Labels = merged(old.Labels, b.Labels)
	pod.Annotations = merged(old.Annotations, b.Annotations)
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
	one := Binding{Namespace: r.Namespace, Name: r.Name, UID: b.UID, ResourceVersion: b.ResourceVersion, Node: b.Target.Name, Labels: b.Labels, Annotations: b.Annotations}
	if r.DryRun {
		_, err := bound(old.(*corev1.Pod), &one)
		return err
	}
	return reg.Bind(ctx, []Binding{one})[0]
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
