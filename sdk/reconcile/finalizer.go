package reconcile

import (
	"slices"

	"github.com/berth-dev/berth/sdk/json"
)

// AddFinalizer has an object stay when it is deleted, until the finalizer is taken
// away. It does nothing where the object has it.
func (r *Result) AddFinalizer(o *Object, finalizer string) {
	if !slices.Contains(o.Finalizers, finalizer) {
		r.finalizers(o, append(slices.Clone(o.Finalizers), finalizer))
	}
}

// RemoveFinalizer takes a finalizer away. It does nothing where the object has none
// of that name.
func (r *Result) RemoveFinalizer(o *Object, finalizer string) {
	if i := slices.Index(o.Finalizers, finalizer); i >= 0 {
		r.finalizers(o, slices.Delete(slices.Clone(o.Finalizers), i, i+1))
	}
}

func (r *Result) finalizers(o *Object, list []string) {
	j := (&json.Writer{}).Open('{').Key("metadata").Open('{').Key("finalizers").Texts(list)
	r.Patch = append(r.Patch, Patch{UID: o.UID, Patch: string(j.Close('}').Close('}').Bytes())})
}
