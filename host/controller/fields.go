package controller

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
)

// fields reads the fields that paths name out of objects of one type, without
// turning the rest of the object into JSON.
type fields struct {
	paths []path
}

// path is a way through structs, by index.
type path struct {
	name  string
	steps [][]int
	leaf  reflect.Type
}

// compile resolves paths against a type once.
func compile(t reflect.Type, paths []string) (*fields, error) {
	f := &fields{}
	for _, name := range paths {
		p := path{name: name}
		at := t
		for step := range strings.SplitSeq(name, ".") {
			for at.Kind() == reflect.Pointer {
				at = at.Elem()
			}
			field, ok := byJSONName(at, step)
			if !ok {
				return nil, fmt.Errorf("%s has no field %s", t, name)
			}
			p.steps = append(p.steps, field.Index)
			at = field.Type
		}
		p.leaf = at
		f.paths = append(f.paths, p)
	}
	return f, nil
}

func byJSONName(t reflect.Type, name string) (reflect.StructField, bool) {
	if t.Kind() != reflect.Struct {
		return reflect.StructField{}, false
	}
	for _, field := range reflect.VisibleFields(t) {
		tag, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if tag == name {
			return field, true
		}
	}
	return reflect.StructField{}, false
}

// of returns each field as JSON, nil where the object has none.
func (f *fields) of(object any) ([]json.RawMessage, error) {
	out := make([]json.RawMessage, len(f.paths))
	for i, p := range f.paths {
		v, ok := p.walk(reflect.ValueOf(object))
		if !ok {
			continue
		}
		data, err := json.Marshal(v.Interface())
		if err != nil {
			return nil, fmt.Errorf("field %s: %w", p.name, err)
		}
		out[i] = data
	}
	return out, nil
}

func (p path) walk(v reflect.Value) (reflect.Value, bool) {
	for _, step := range p.steps {
		for v.Kind() == reflect.Pointer {
			if v.IsNil() {
				return v, false
			}
			v = v.Elem()
		}
		v = v.FieldByIndex(step)
	}
	return v, v.Kind() != reflect.Pointer || !v.IsNil()
}

// same tells whether two objects have the same values.
func (f *fields) same(a, b any) bool {
	for _, p := range f.paths {
		was, ok := p.walk(reflect.ValueOf(a))
		is, ok2 := p.walk(reflect.ValueOf(b))
		if ok != ok2 || ok && !equality.Semantic.DeepEqual(was.Interface(), is.Interface()) {
			return false
		}
	}
	return true
}

// at finds one value by its path.
func at(object any, name string) reflect.Value {
	p, ok := pathOf(reflect.TypeOf(object), name)
	if !ok {
		return reflect.Value{}
	}
	v, ok := p.walk(reflect.ValueOf(object))
	if !ok {
		return reflect.Value{}
	}
	return v
}

// known are the paths that were looked for, by type and name: manifests name few
// of them, and they are followed in thousands of objects.
var known sync.Map

type pathKey struct {
	of   reflect.Type
	name string
}

// pathOf is a path that a type has.
func pathOf(t reflect.Type, name string) (path, bool) {
	key := pathKey{t, name}
	f, ok := known.Load(key)
	if !ok {
		compiled, err := compile(t, []string{name})
		if err != nil || len(compiled.paths) == 0 {
			return path{}, false // not kept: guests may ask for any text
		}
		f, _ = known.LoadOrStore(key, compiled)
	}
	return f.(*fields).paths[0], true
}
