package registry

import (
	"reflect"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// How much a list or map of an object may hold. Kubernetes has no such bounds,
// and its validation compares the parts of many lists with one another: a body
// of 3 MB that is nothing but containers kept a processor busy for minutes.
const (
	maxParts   = 1000  // of a list of parts: containers, ports, variables
	maxEntries = 10000 // of a list of words, and of a map
)

// checkSize refuses an object with a list or map that is too long.
func checkSize(r *Request, obj any) error {
	most := limits{parts: maxParts, entries: maxEntries}
	if r.Kind.MaxParts > 0 {
		most.parts = r.Kind.MaxParts
	}
	v := reflect.ValueOf(obj)
	measure := measureOf(v.Type())
	if measure == nil {
		return nil
	}
	long := measure(v, &most)
	if long == nil {
		return nil
	}
	errs := field.ErrorList{field.TooMany(field.NewPath(strings.Join(long.path, ".")), long.has, long.most)}
	return apierrors.NewInvalid(r.Kind.GVK().GroupKind(), r.Name, errs)
}

type limits struct{ parts, entries int }

// tooLong is a list or map with more than it may have.
type tooLong struct {
	path      []string
	has, most int
}

func (l *tooLong) below(name string) *tooLong {
	if l != nil && name != "" {
		l.path = append([]string{name}, l.path...)
	}
	return l
}

// measure finds what is too long in a value of one type.
type measure func(reflect.Value, *limits) *tooLong

// measures holds them by type; nil is for types without lists.
var measures sync.Map // reflect.Type → measure

// making guards the measures that are being made.
var making struct {
	sync.Mutex
	of map[reflect.Type]measure
}

func measureOf(t reflect.Type) measure {
	if had, ok := measures.Load(t); ok {
		return had.(measure)
	}
	making.Lock()
	defer making.Unlock()
	making.of = map[reflect.Type]measure{}
	m := measurePart(t)
	measures.Store(t, m)
	return m
}

// measurePart makes a measure; making is held.
func measurePart(t reflect.Type) measure {
	if had, ok := making.of[t]; ok {
		return had
	}
	// A type may hold itself: until its own measure is there, it is not looked into.
	making.of[t] = nil
	making.of[t] = makeMeasure(t)
	return making.of[t]
}

func makeMeasure(t reflect.Type) measure {
	switch t.Kind() {
	case reflect.Pointer:
		one := measurePart(t.Elem())
		if one == nil {
			return nil
		}
		return func(v reflect.Value, most *limits) *tooLong {
			if v.IsNil() {
				return nil
			}
			return one(v.Elem(), most)
		}
	case reflect.Slice:
		return measureSlice(t)
	case reflect.Map:
		return func(v reflect.Value, most *limits) *tooLong {
			if v.Len() > most.entries {
				return &tooLong{has: v.Len(), most: most.entries}
			}
			return nil
		}
	case reflect.Struct:
		return measureStruct(t)
	}
	return nil
}

func measureSlice(t reflect.Type) measure {
	if t.Elem().Kind() == reflect.Uint8 {
		return nil
	}
	one, parts := measurePart(t.Elem()), t.Elem().Kind() == reflect.Struct
	return func(v reflect.Value, most *limits) *tooLong {
		n, bound := v.Len(), most.entries
		if parts {
			bound = most.parts
		}
		if n > bound {
			return &tooLong{has: n, most: bound}
		}
		if one == nil {
			return nil
		}
		for i := range n {
			if long := one(v.Index(i), most); long != nil {
				long.path[0] = "[" + strconv.Itoa(i) + "]." + long.path[0]
				return long
			}
		}
		return nil
	}
}

func measureStruct(t reflect.Type) measure {
	type part struct {
		index   int
		name    string
		measure measure
	}
	var parts []part
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		if m := measurePart(f.Type); m != nil {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			parts = append(parts, part{i, name, m})
		}
	}
	if parts == nil {
		return nil
	}
	return func(v reflect.Value, most *limits) *tooLong {
		for i := range parts {
			if long := parts[i].measure(v.Field(parts[i].index), most); long != nil {
				return long.below(parts[i].name)
			}
		}
		return nil
	}
}

// checkApplied does the same for an apply configuration, before it is merged.
func checkApplied(r *Request, doc map[string]any) error {
	most := limits{parts: maxParts, entries: maxEntries}
	if r.Kind.MaxParts > 0 {
		most.parts = r.Kind.MaxParts
	}
	name, has, bound := longest(doc, &most)
	if has == 0 {
		return nil
	}
	errs := field.ErrorList{field.TooMany(field.NewPath(name), has, bound)}
	return apierrors.NewInvalid(r.Kind.GVK().GroupKind(), r.Name, errs)
}

func longest(doc map[string]any, most *limits) (name string, has, bound int) {
	if len(doc) > most.entries {
		return "object", len(doc), most.entries
	}
	for key, value := range doc {
		switch value := value.(type) {
		case map[string]any:
			name, has, bound = longest(value, most)
			if name == "object" {
				name = key
			}
		case []any:
			name, has, bound = longestIn(key, value, most)
		}
		if has > 0 {
			return name, has, bound
		}
	}
	return "", 0, 0
}

func longestIn(key string, list []any, most *limits) (name string, has, bound int) {
	bound = most.entries
	if len(list) > 0 {
		if _, parts := list[0].(map[string]any); parts {
			bound = most.parts
		}
	}
	if len(list) > bound {
		return key, len(list), bound
	}
	for _, one := range list {
		if part, ok := one.(map[string]any); ok {
			if name, has, bound := longest(part, most); has > 0 {
				return name, has, bound
			}
		}
	}
	return "", 0, 0
}
