package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/berth-dev/berth/host/api/kind"
	"github.com/berth-dev/berth/host/store"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

var budgetKind = kind.MustStored("poddisruptionbudgets.policy")

// maxDisrupted bounds the pods that a budget counts as on their way out.
const maxDisrupted = 2000

// Evict deletes a pod if the budgets that cover it allow it. The budget's count
// and the deletion are one transaction.
func (reg *Registry) Evict(ctx context.Context, r *Request, e *policyv1.Eviction) error {
	if e.Name != "" && e.Name != r.Name {
		return apierrors.NewBadRequest("name in URL does not match name in Eviction object")
	}
	opts := &metav1.DeleteOptions{}
	if e.DeleteOptions != nil {
		opts = e.DeleteOptions.DeepCopy()
		r.DryRun = r.DryRun || len(opts.DryRun) > 0
	}
	old, err := reg.Get(ctx, r)
	if err != nil {
		return err
	}
	a := r.attributes(Create, nil, old)
	a.Subresource, a.Body = "eviction", e
	ctx = r.context(ctx)
	if err := reg.ask(ctx, r, a); err != nil {
		return err
	}
	_, _, err = reg.remove(ctx, r, opts, func(a *Attributes, last store.Object) error {
		pod := last.(*corev1.Pod)
		disrupted(pod)
		if unbudgeted(a.Old.(*corev1.Pod)) {
			return nil
		}
		op, err := reg.charge(a.Old.(*corev1.Pod))
		if err != nil || op == nil {
			return err
		}
		a.Also(*op)
		return nil
	})
	return err
}

// unbudgeted pods disturb nobody when they go.
func unbudgeted(pod *corev1.Pod) bool {
	switch pod.Status.Phase {
	case corev1.PodSucceeded, corev1.PodFailed, corev1.PodPending:
		return true
	}
	return pod.DeletionTimestamp != nil
}

// disrupted marks why the pod goes.
func disrupted(pod *corev1.Pod) {
	c := corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, LastTransitionTime: now(),
		Reason: "EvictionByEvictionAPI", Message: "Eviction API: evicting", ObservedGeneration: pod.Generation}
	pod.Status.Conditions = append(slices.DeleteFunc(pod.Status.Conditions, func(had corev1.PodCondition) bool {
		return had.Type == corev1.DisruptionTarget
	}), c)
}

// charge takes the pod off its budget; nil means that none covers it.
func (reg *Registry) charge(pod *corev1.Pod) (*store.Op, error) {
	budgets, err := reg.budgets(pod)
	if err != nil || len(budgets) == 0 {
		return nil, err
	}
	if len(budgets) > 1 {
		return nil, apierrors.NewInternalError(errors.New("This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.")) //nolint:revive,staticcheck // Kubernetes' words
	}
	old := budgets[0]
	if !ready(pod) && spareUnready(old) {
		return nil, nil
	}
	budget := old.DeepCopy()
	if err := spend(budget, pod.Name); err != nil {
		return nil, err
	}
	return &store.Op{Kind: store.Update, Key: budgetKind.Key(old.Namespace, old.Name), Object: budget, Expect: Revision(old)}, nil
}

func (reg *Registry) budgets(pod *corev1.Pod) ([]*policyv1.PodDisruptionBudget, error) {
	if len(pod.Labels) == 0 {
		return nil, nil
	}
	found, err := reg.store.List(budgetKind.StoreName(), pod.Namespace, store.ListOptions{})
	if err != nil {
		return nil, err
	}
	var covering []*policyv1.PodDisruptionBudget
	for _, obj := range found.Items {
		b := obj.(*policyv1.PodDisruptionBudget)
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err == nil && selector.Matches(labels.Set(pod.Labels)) {
			covering = append(covering, b)
		}
	}
	return covering, nil
}

func ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// spareUnready tells whether pods that aren't ready may go without counting.
func spareUnready(b *policyv1.PodDisruptionBudget) bool {
	if p := b.Spec.UnhealthyPodEvictionPolicy; p != nil && *p == policyv1.AlwaysAllow {
		return true
	}
	return b.Status.CurrentHealthy >= b.Status.DesiredHealthy && b.Status.DesiredHealthy > 0
}

func spend(b *policyv1.PodDisruptionBudget, pod string) error {
	s := &b.Status
	switch {
	case s.ObservedGeneration < b.Generation:
		err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 10)
		return withCause(err, policyv1.DisruptionBudgetCause, fmt.Sprintf("The disruption budget %s is still being processed by the server.", b.Name))
	case s.DisruptionsAllowed < 0:
		return apierrors.NewForbidden(budgetKind.GroupResource(), b.Name, errors.New("pdb disruptions allowed is negative"))
	case len(s.DisruptedPods) > maxDisrupted:
		return apierrors.NewForbidden(budgetKind.GroupResource(), b.Name, errors.New("DisruptedPods map too big - too many evictions not confirmed by PDB controller"))
	case s.DisruptionsAllowed == 0:
		err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
		return withCause(err, policyv1.DisruptionBudgetCause,
			fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently", b.Name, s.DesiredHealthy, s.CurrentHealthy))
	}
	s.DisruptionsAllowed--
	if s.DisruptedPods == nil {
		s.DisruptedPods = map[string]metav1.Time{}
	}
	s.DisruptedPods[pod] = now()
	return nil
}
