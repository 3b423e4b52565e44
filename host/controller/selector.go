package controller

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-dev/berth/host/store"
)

// selectorOf returns the parent's spec.selector, whichever form it has: a
// LabelSelector, or a plain map as a ReplicationController's. Nothing is
// selected by an absent or empty one.
func selectorOf(parent store.Object) labels.Selector {
	spec := reflect.ValueOf(parent).Elem().FieldByName("Spec")
	if !spec.IsValid() || spec.Kind() != reflect.Struct {
		return labels.Nothing()
	}
	field := spec.FieldByName("Selector")
	if !field.IsValid() {
		return labels.Nothing()
	}
	switch s := field.Interface().(type) {
	case *metav1.LabelSelector:
		selector, err := metav1.LabelSelectorAsSelector(s)
		if err != nil || selector.Empty() {
			return labels.Nothing()
		}
		return selector
	case map[string]string:
		if len(s) == 0 {
			return labels.Nothing()
		}
		return labels.SelectorFromSet(s)
	default:
		return labels.Nothing()
	}
}
