package controller

import (
	"reflect"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/host/store"
)

func labelSet(o store.Object) labels.Set { return labels.Set(o.GetLabels()) }

// selectorAt reads a selector in whichever form it has: a LabelSelector, or a
// plain map as a ReplicationController's. Nothing is selected by an absent one.
// What an empty LabelSelector selects is for the caller to say: all for a
// budget, nothing for those that own what they select.
func selectorAt(field reflect.Value, emptyIsAll bool) labels.Selector {
	if !field.IsValid() {
		return labels.Nothing()
	}
	switch s := field.Interface().(type) {
	case metav1.LabelSelector:
		return fromLabelSelector(&s, emptyIsAll)
	case *metav1.LabelSelector:
		return fromLabelSelector(s, emptyIsAll)
	case map[string]string:
		if len(s) == 0 {
			return labels.Nothing()
		}
		return labels.SelectorFromSet(s)
	default:
		return labels.Nothing()
	}
}

func fromLabelSelector(s *metav1.LabelSelector, emptyIsAll bool) labels.Selector {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil || selector.Empty() && !emptyIsAll {
		return labels.Nothing()
	}
	return selector
}

// selectors finds the parents that select an object without looking at each:
// they lie by one label that their selector asks for.
type selectors struct {
	mu sync.RWMutex
	of map[types.NamespacedName]indexed
	// by holds the parents of a namespace by such a label, and under none those
	// whose selectors ask for no one value.
	by map[bucket]map[types.NamespacedName]bool
}

type bucket struct{ namespace, key, value string }

type indexed struct {
	selector labels.Selector
	in       bucket
}

func newSelectors() *selectors {
	return &selectors{of: map[types.NamespacedName]indexed{}, by: map[bucket]map[types.NamespacedName]bool{}}
}

// put keeps the selector of a parent; nil forgets the parent.
func (s *selectors) put(name types.NamespacedName, selector labels.Selector) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if was, ok := s.of[name]; ok {
		delete(s.by[was.in], name)
		if len(s.by[was.in]) == 0 {
			delete(s.by, was.in)
		}
		delete(s.of, name)
	}
	if selector == nil {
		return
	}
	in := bucket{namespace: name.Namespace}
	requirements, selectable := selector.Requirements()
	if !selectable {
		return
	}
	in.key, in.value = oneLabel(requirements)
	s.of[name] = indexed{selector, in}
	if s.by[in] == nil {
		s.by[in] = map[types.NamespacedName]bool{}
	}
	s.by[in][name] = true
}

// matching calls fn for each parent whose selector matches the object.
func (s *selectors) matching(o store.Object, fn func(types.NamespacedName)) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	set := labelSet(o)
	look := func(in bucket) {
		for name := range s.by[in] {
			if s.of[name].selector.Matches(set) {
				fn(name)
			}
		}
	}
	look(bucket{namespace: o.GetNamespace()})
	for key, value := range set {
		look(bucket{o.GetNamespace(), key, value})
	}
}

// oneLabel is the first label of which one value is asked for.
func oneLabel(requirements labels.Requirements) (key, value string) {
	for i := range requirements {
		if values := requirements[i].ValuesUnsorted(); len(values) == 1 && isEquality(&requirements[i]) {
			return requirements[i].Key(), values[0]
		}
	}
	return "", ""
}

func isEquality(r *labels.Requirement) bool {
	switch r.Operator() {
	case selection.Equals, selection.DoubleEquals, selection.In:
		return true
	}
	return false
}
