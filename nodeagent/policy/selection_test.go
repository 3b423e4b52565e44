package policy

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// TestASelectorThatMakesNoSenseSharesNoSet: it selects nothing, and reads as one
// that selects all.
func TestASelectorThatMakesNoSenseSharesNoSet(t *testing.T) {
	t.Parallel()
	nonsense := selector(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Like"}}})
	all := setOf(everyPod, nil, nil)
	for name, p := range map[string]peer{
		"pods":                {namespaces: labels.Everything(), pods: nonsense},
		"namespaces":          {namespaces: nonsense, pods: labels.Everything()},
		"pods and namespaces": {namespaces: nonsense, pods: nonsense},
	} {
		if setOf(p, nil, nil) == all {
			t.Errorf("a selector of %s that selects nothing has the set of all pods", name)
		}
	}
}
