//go:build !wasip1

package sdk

import "reflect"

// fresh copies what a pointer points to, so that each instance has settings of
// its own. A sandbox opens one policy once and needs no copy; tests that run
// natively open many.
func fresh[T any](impl T) T {
	v := reflect.ValueOf(impl)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return impl
	}
	c := reflect.New(v.Type().Elem())
	c.Elem().Set(v.Elem())
	return c.Interface().(T)
}
