package cycle

import (
	"math"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Budget is what preemption reads of a PodDisruptionBudget. It is never changed.
type Budget struct {
	Namespace, Name string
	Selector        *metav1.LabelSelector `json:",omitempty"`
	// Allowed is how many more of its pods may go.
	Allowed int32
	// Counted are pods, by name, that go already and are counted in Allowed.
	Counted map[string]bool `json:",omitempty"`

	selector labels.Selector
}

// NewBudget reads a PodDisruptionBudget.
func NewBudget(b *policyv1.PodDisruptionBudget) *Budget {
	counted := make(map[string]bool, len(b.Status.DisruptedPods))
	for name := range b.Status.DisruptedPods {
		counted[name] = true
	}
	return (&Budget{
		Namespace: b.Namespace, Name: b.Name, Selector: b.Spec.Selector, Allowed: b.Status.DisruptionsAllowed, Counted: counted,
	}).Ready()
}

// Ready is the budget with its selector parsed, which one that was stored lacks.
func (b *Budget) Ready() *Budget {
	ready := *b
	selector, err := metav1.LabelSelectorAsSelector(b.Selector)
	if err != nil || selector.Empty() {
		selector = labels.Nothing()
	}
	ready.selector = selector
	return &ready
}

// covers says whether the budget speaks of a pod that it has not counted yet.
func (b *Budget) covers(pod *v1.Pod) bool {
	return b.Namespace == pod.Namespace && len(pod.Labels) > 0 && b.selector.Matches(labels.Set(pod.Labels)) && !b.Counted[pod.Name]
}

// Weight is about what the budget takes in memory.
func (b *Budget) Weight() int {
	weight := 256 + len(b.Namespace) + len(b.Name)
	if b.Selector != nil {
		weight += 256 + 4*b.Selector.Size()
	}
	for name := range b.Counted {
		weight += 48 + len(name)
	}
	return weight
}

// StartOf is when a pod started, in nanoseconds since 1970; one that has not
// started yet counts as the latest.
func StartOf(object *v1.Pod) int64 {
	if object.Status.StartTime == nil {
		return math.MaxInt64
	}
	return object.Status.StartTime.UnixNano()
}
