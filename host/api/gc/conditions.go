package gc

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-dev/berth/host/api/kind"
	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/store"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// left is what is still in a namespace that is going, and why.
type left struct {
	objects    map[string]int // by "resource.group"
	finalizers map[string]int
	failed     []error
}

func newLeft() *left { return &left{objects: map[string]int{}, finalizers: map[string]int{}} }

func (l *left) empty() bool { return len(l.objects) == 0 && len(l.failed) == 0 }

func (l *left) stays(k *kind.Kind, obj store.Object) {
	gr := k.GroupResource()
	l.objects[gr.Resource+"."+gr.Group]++
	for _, f := range obj.GetFinalizers() {
		l.finalizers[f]++
	}
}

// conditions say how the deletion stands, in Kubernetes' words: people read
// from them what a namespace waits for.
func (l *left) conditions() []corev1.NamespaceCondition {
	ok := func(t corev1.NamespaceConditionType, reason, message string) corev1.NamespaceCondition {
		return corev1.NamespaceCondition{Type: t, Status: corev1.ConditionFalse, Reason: reason, Message: message}
	}
	all := []corev1.NamespaceCondition{
		ok(corev1.NamespaceDeletionDiscoveryFailure, "ResourcesDiscovered", "All resources successfully discovered"),
		ok(corev1.NamespaceDeletionGVParsingFailure, "ParsedGroupVersions", "All legacy kube types successfully parsed"),
		ok(corev1.NamespaceDeletionContentFailure, "ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
		ok(corev1.NamespaceContentRemaining, "ContentRemoved", "All content successfully removed"),
		ok(corev1.NamespaceFinalizersRemaining, "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
	}
	not := func(c *corev1.NamespaceCondition, reason, message string) {
		c.Status, c.Reason, c.Message = corev1.ConditionTrue, reason, message
	}
	if len(l.failed) > 0 {
		not(&all[2], "ContentDeletionFailed", fmt.Sprintf("Failed to delete all resource types, %d remaining: %s", len(l.failed), texts(l.failed)))
	}
	if len(l.objects) > 0 {
		not(&all[3], "SomeResourcesRemain", "Some resources are remaining: "+counted(l.objects, "%s has %d resource instances"))
	}
	if len(l.finalizers) > 0 {
		not(&all[4], "SomeFinalizersRemain", "Some content in the namespace has finalizers remaining: "+counted(l.finalizers, "%s in %d resource instances"))
	}
	return all
}

func texts(errs []error) string {
	all := make([]string, len(errs))
	for i, err := range errs {
		all[i] = err.Error()
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func counted(counts map[string]int, format string) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, fmt.Sprintf(format, name, counts[name]))
	}
	return strings.Join(all, ", ")
}

// tell writes the conditions into the namespace, where they changed.
func (c *Collector) tell(ctx context.Context, name string, l *left) error {
	r := registry.On("namespaces", "", name).Sub("status")
	_, err := c.registry.Modify(ctx, r, func(old store.Object) (store.Object, error) {
		next := old.(*corev1.Namespace).DeepCopy()
		changed := false
		for _, now := range l.conditions() {
			changed = setCondition(&next.Status, now) || changed
		}
		if !changed {
			return old, nil
		}
		return next, nil
	})
	return ignoreGone(err)
}

func setCondition(s *corev1.NamespaceStatus, now corev1.NamespaceCondition) bool {
	for i := range s.Conditions {
		was := &s.Conditions[i]
		if was.Type != now.Type {
			continue
		}
		now.LastTransitionTime = was.LastTransitionTime
		if *was == now {
			return false
		}
		if was.Status != now.Status {
			now.LastTransitionTime = metav1.Now()
		}
		*was = now
		return true
	}
	now.LastTransitionTime = metav1.Now()
	s.Conditions = append(s.Conditions, now)
	return true
}
