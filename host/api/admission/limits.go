package admission

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/auth/view"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	resourcehelper "k8s.io/component-helpers/resource"
)

// limitsAnnotation tells what the plugin filled in.
const limitsAnnotation = "kubernetes.io/limit-ranger"

// limitRanger fills in and bounds what pods and claims ask for, by the
// LimitRanges of their namespace.
type limitRanger struct{ objects view.Objects }

func (l limitRanger) ranges(ctx context.Context, namespace string) ([]*corev1.LimitRange, error) {
	if l.objects.Version(view.LimitRanges) == 0 {
		return nil, nil // no cluster-wide cost while nobody uses them
	}
	return view.List[*corev1.LimitRange](ctx, l.objects, view.LimitRanges, namespace)
}

func (l limitRanger) admit(ctx context.Context, a *registry.Attributes) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok || !whole(a, registry.Create) {
		return nil
	}
	ranges, err := l.ranges(ctx, a.Namespace)
	if err != nil {
		return err
	}
	for _, r := range ranges {
		fillIn(pod, r)
	}
	return nil
}

func fillIn(pod *corev1.Pod, r *corev1.LimitRange) {
	requests, limits := corev1.ResourceList{}, corev1.ResourceList{}
	for _, item := range r.Spec.Limits {
		if item.Type != corev1.LimitTypeContainer {
			continue
		}
		for name, value := range item.DefaultRequest {
			requests[name] = value
		}
		for name, value := range item.Default {
			limits[name] = value
		}
	}
	var notes []string
	for i := range pod.Spec.Containers {
		notes = fillContainer(&pod.Spec.Containers[i], "container", requests, limits, notes)
	}
	for i := range pod.Spec.InitContainers {
		notes = fillContainer(&pod.Spec.InitContainers[i], "init container", requests, limits, notes)
	}
	if len(notes) == 0 {
		return
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[limitsAnnotation] = "LimitRanger plugin set: " + strings.Join(notes, "; ")
}

func fillContainer(c *corev1.Container, what string, requests, limits corev1.ResourceList, notes []string) []string {
	note := func(kind string, names []string) {
		if len(names) > 0 {
			slices.Sort(names)
			notes = append(notes, fmt.Sprintf("%s %s for %s %s", strings.Join(names, ", "), kind, what, c.Name))
		}
	}
	var filledLimits, filledRequests []string
	c.Resources.Limits, filledLimits = fillList(c.Resources.Limits, limits)
	c.Resources.Requests, filledRequests = fillList(c.Resources.Requests, requests)
	note("request", filledRequests)
	note("limit", filledLimits)
	return notes
}

func fillList(have, standard corev1.ResourceList) (corev1.ResourceList, []string) {
	var filled []string
	for name, value := range standard {
		if _, ok := have[name]; ok {
			continue
		}
		if have == nil {
			have = corev1.ResourceList{}
		}
		have[name] = value.DeepCopy()
		filled = append(filled, string(name))
	}
	return have, filled
}

func (l limitRanger) validate(ctx context.Context, a *registry.Attributes) error {
	pod, ok := a.Object.(*corev1.Pod)
	resize := a.Subresource == "resize" && a.Operation == registry.Update
	if !ok || !resize && !whole(a, registry.Create) {
		return nil
	}
	ranges, err := l.ranges(ctx, a.Namespace)
	if err != nil {
		return err
	}
	for _, r := range ranges {
		if problems := podProblems(pod, r); len(problems) > 0 {
			return forbid(a, "%w", utilerrors.NewAggregate(problems))
		}
	}
	return nil
}

func podProblems(pod *corev1.Pod, r *corev1.LimitRange) []error {
	var problems []error
	for i := range r.Spec.Limits {
		item := &r.Spec.Limits[i]
		switch item.Type {
		case corev1.LimitTypeContainer:
			for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
				problems = append(problems, outOfBounds(item, c.Resources.Requests, c.Resources.Limits)...)
			}
		case corev1.LimitTypePod:
			requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{ExcludeOverhead: true})
			limits := resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{ExcludeOverhead: true})
			problems = append(problems, outOfBounds(item, requests, limits)...)
		}
	}
	return problems
}

func (l limitRanger) validateClaim(ctx context.Context, a *registry.Attributes) error {
	claim, ok := a.Object.(*corev1.PersistentVolumeClaim)
	if !ok || !whole(a, registry.Create, registry.Update) || a.Old != nil && a.Old.GetDeletionTimestamp() != nil {
		return nil
	}
	ranges, err := l.ranges(ctx, a.Namespace)
	if err != nil {
		return err
	}
	for _, r := range ranges {
		var problems []error
		for i := range r.Spec.Limits {
			if item := &r.Spec.Limits[i]; item.Type == corev1.LimitTypePersistentVolumeClaim {
				problems = append(problems, claimProblems(item, claim.Spec.Resources.Requests)...)
			}
		}
		if len(problems) > 0 {
			return forbid(a, "%w", utilerrors.NewAggregate(problems))
		}
	}
	return nil
}

// claimProblems looks at requests alone: claims have no limits.
func claimProblems(item *corev1.LimitRangeItem, requests corev1.ResourceList) []error {
	var problems []error
	for name, least := range item.Min {
		problems = appendError(problems, tooLittle(item.Type, name, least, requests, nil))
	}
	for name, most := range item.Max {
		have, ok := requests[name]
		switch {
		case !ok:
			problems = append(problems, fmt.Errorf("maximum %s usage per %s is %s.  No request is specified", name, item.Type, most.String()))
		case have.Cmp(most) > 0:
			problems = append(problems, fmt.Errorf("maximum %s usage per %s is %s, but request is %s", name, item.Type, most.String(), have.String()))
		}
	}
	return problems
}

func outOfBounds(item *corev1.LimitRangeItem, requests, limits corev1.ResourceList) []error {
	var problems []error
	for _, name := range sorted(item.Min) {
		problems = appendError(problems, tooLittle(item.Type, name, item.Min[name], requests, limits))
	}
	for _, name := range sorted(item.Max) {
		problems = appendError(problems, tooMuch(item.Type, name, item.Max[name], requests, limits))
	}
	for _, name := range sorted(item.MaxLimitRequestRatio) {
		problems = appendError(problems, tooFar(item.Type, name, item.MaxLimitRequestRatio[name], requests, limits))
	}
	return problems
}

func appendError(all []error, err error) []error {
	if err == nil {
		return all
	}
	return append(all, err)
}

func sorted(list corev1.ResourceList) []corev1.ResourceName {
	names := make([]corev1.ResourceName, 0, len(list))
	for name := range list {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func tooLittle(kind corev1.LimitType, name corev1.ResourceName, least resource.Quantity, requests, limits corev1.ResourceList) error {
	request, asked := requests[name]
	if !asked {
		return fmt.Errorf("minimum %s usage per %s is %s.  No request is specified", name, kind, least.String())
	}
	if request.Cmp(least) < 0 {
		return fmt.Errorf("minimum %s usage per %s is %s, but request is %s", name, kind, least.String(), request.String())
	}
	if limit, limited := limits[name]; limited && limit.Cmp(least) < 0 {
		return fmt.Errorf("minimum %s usage per %s is %s, but limit is %s", name, kind, least.String(), limit.String())
	}
	return nil
}

func tooMuch(kind corev1.LimitType, name corev1.ResourceName, most resource.Quantity, requests, limits corev1.ResourceList) error {
	limit, limited := limits[name]
	if !limited {
		return fmt.Errorf("maximum %s usage per %s is %s.  No limit is specified", name, kind, most.String())
	}
	if limit.Cmp(most) > 0 {
		return fmt.Errorf("maximum %s usage per %s is %s, but limit is %s", name, kind, most.String(), limit.String())
	}
	if request, asked := requests[name]; asked && request.Cmp(most) > 0 {
		return fmt.Errorf("maximum %s usage per %s is %s, but request is %s", name, kind, most.String(), request.String())
	}
	return nil
}

func tooFar(kind corev1.LimitType, name corev1.ResourceName, most resource.Quantity, requests, limits corev1.ResourceList) error {
	request, limit := requests[name], limits[name]
	if request.IsZero() {
		return fmt.Errorf("%s max limit to request ratio per %s is %s, but no request is specified or request is 0", name, kind, most.String())
	}
	if limit.IsZero() {
		return fmt.Errorf("%s max limit to request ratio per %s is %s, but no limit is specified or limit is 0", name, kind, most.String())
	}
	ratio := limit.AsApproximateFloat64() / request.AsApproximateFloat64()
	if ratio > most.AsApproximateFloat64() {
		return fmt.Errorf("%s max limit to request ratio per %s is %s, but provided ratio is %f", name, kind, most.String(), ratio)
	}
	return nil
}
