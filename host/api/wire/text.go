package wire

import (
	"errors"
	"reflect"
	"sync"
	"unicode/utf8"
)

var errNotText = errors.New("string field contains invalid UTF-8")

// checkText refuses an object with a string that is no UTF-8. Protobuf's decoder
// lets such strings in, and JSON has no form for them: what one client sent
// would not be what another reads.
func checkText(raw []byte, obj any) error {
	if ascii(raw) {
		return nil
	}
	v := reflect.ValueOf(obj)
	if p := textOf(v.Type()); p != nil && !p(v) {
		return errNotText
	}
	return nil
}

func ascii(data []byte) bool {
	for _, c := range data {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// textCheck tells whether all strings in a value of one type are text.
type textCheck func(reflect.Value) bool

// textChecks holds them by type; nil is for types without strings.
var textChecks sync.Map // reflect.Type → textCheck

func textOf(t reflect.Type) textCheck {
	if had, ok := textChecks.Load(t); ok {
		return had.(textCheck)
	}
	// A type may hold itself: until its own check is there, this one stands in.
	textChecks.Store(t, textCheck(func(v reflect.Value) bool { check := makeTextCheck(t); return check == nil || check(v) }))
	check := makeTextCheck(t)
	textChecks.Store(t, check)
	return check
}

func makeTextCheck(t reflect.Type) textCheck {
	switch t.Kind() {
	case reflect.String:
		return func(v reflect.Value) bool { return utf8.ValidString(v.String()) }
	case reflect.Pointer:
		return throughPointer(textOf(t.Elem()))
	case reflect.Slice:
		return eachElement(textOf(t.Elem()))
	case reflect.Map:
		return eachEntry(textOf(t.Key()), textOf(t.Elem()))
	case reflect.Struct:
		return eachField(t)
	}
	return nil
}

func throughPointer(one textCheck) textCheck {
	if one == nil {
		return nil
	}
	return func(v reflect.Value) bool { return v.IsNil() || one(v.Elem()) }
}

func eachElement(one textCheck) textCheck {
	if one == nil {
		return nil
	}
	return func(v reflect.Value) bool {
		for i := range v.Len() {
			if !one(v.Index(i)) {
				return false
			}
		}
		return true
	}
}

func eachEntry(key, value textCheck) textCheck {
	if key == nil && value == nil {
		return nil
	}
	return func(v reflect.Value) bool {
		for it := v.MapRange(); it.Next(); {
			if key != nil && !key(it.Key()) || value != nil && !value(it.Value()) {
				return false
			}
		}
		return true
	}
}

func eachField(t reflect.Type) textCheck {
	type part struct {
		index int
		check textCheck
	}
	var parts []part
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		if check := textOf(f.Type); check != nil {
			parts = append(parts, part{i, check})
		}
	}
	if parts == nil {
		return nil
	}
	return func(v reflect.Value) bool {
		for _, p := range parts {
			if !p.check(v.Field(p.index)) {
				return false
			}
		}
		return true
	}
}
