package registry

import (
	"fmt"

	"github.com/berth-dev/berth/host/api/kind"
	"github.com/berth-dev/berth/host/store"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// Selector picks objects by labels and fields; nil parts pick all.
type Selector struct {
	Labels labels.Selector
	Fields fields.Selector
}

// Empty tells whether it picks everything.
func (s *Selector) Empty() bool {
	return (s.Labels == nil || s.Labels.Empty()) && (s.Fields == nil || s.Fields.Empty())
}

// name is that of the one object which it can pick.
func (s *Selector) name() (string, bool) {
	if s.Fields == nil {
		return "", false
	}
	name, ok := s.Fields.RequiresExactMatch("metadata.name")
	return name, ok && name != ""
}

// longestSelector bounds what each object is compared with.
const longestSelector = 64 << 10

// ParseSelector reads labelSelector and fieldSelector as clients send them.
func ParseSelector(r *Request, labelText, fieldText string) (Selector, error) {
	var s Selector
	var err error
	if len(labelText)+len(fieldText) > longestSelector {
		return s, apierrors.NewBadRequest(fmt.Sprintf("selectors of %d bytes are too long: at most %d are read", len(labelText)+len(fieldText), longestSelector))
	}
	if labelText != "" {
		if s.Labels, err = labels.Parse(labelText); err != nil {
			return s, apierrors.NewBadRequest(err.Error())
		}
	}
	if fieldText == "" {
		return s, nil
	}
	if s.Fields, err = fields.ParseSelector(fieldText); err != nil {
		return s, apierrors.NewBadRequest(err.Error())
	}
	gvk := r.version().WithKind(r.Kind.Name)
	s.Fields, err = s.Fields.Transform(func(label, value string) (string, string, error) {
		return kind.Scheme.ConvertFieldLabel(gvk, label, value)
	})
	if err != nil {
		return s, apierrors.NewBadRequest(err.Error())
	}
	return s, nil
}

// match is nil when everything matches.
func (s *Selector) match(k *kind.Kind) func(store.Object) bool {
	if s.Empty() {
		return nil
	}
	byLabel := s.Labels != nil && !s.Labels.Empty()
	byField := s.Fields != nil && !s.Fields.Empty()
	return func(obj store.Object) bool {
		if byLabel && !s.Labels.Matches(labels.Set(obj.GetLabels())) {
			return false
		}
		return !byField || s.Fields.Matches(fieldView{k, obj})
	}
}

// fieldView shows an object's fields to a selector.
type fieldView struct {
	kind *kind.Kind
	obj  store.Object
}

// Has implements fields.Fields.
func (fieldView) Has(string) bool { return true }

// Get implements fields.Fields.
func (v fieldView) Get(label string) string {
	switch label {
	case "metadata.name":
		return v.obj.GetName()
	case "metadata.namespace":
		return v.obj.GetNamespace()
	}
	if v.kind.Field == nil {
		return ""
	}
	return v.kind.Field(v.obj, label)
}
