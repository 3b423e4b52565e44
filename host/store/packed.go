package store

import (
	"strconv"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// packing is of a resource whose objects are seldom read once they are old: what
// history no longer shows of it is kept as the bytes that the engine was given,
// a third of the memory in two pieces that hold no pointers, and decoded for
// each reader.
type packing struct {
	store    *Store
	resource string
}

// packed is an object that history lets go of.
type packed struct {
	of   *packing
	data []byte
	live atomic.Pointer[Object]
}

// pack returns what keeps an object that is committed, nil for a resource whose
// objects stay as they are.
func (s *Store) pack(resource string, obj Object, data []byte) *packed {
	of := s.packings[resource]
	if of == nil {
		return nil
	}
	p := &packed{of: of, data: data}
	if obj != nil {
		p.live.Store(&obj)
	}
	return p
}

// object is the state itself, which may be decoded for this caller.
func (e *entry) object() Object {
	if e.packed == nil {
		return e.obj
	}
	if obj := e.packed.live.Load(); obj != nil {
		return *obj
	}
	return e.packed.unpack(e)
}

// unpack decodes what Encode wrote. A codec that fails here fails to open the
// store, too: readers then see the object by its name alone.
func (p *packed) unpack(e *entry) Object {
	s := p.of.store
	obj, err := s.codec.Decode(p.of.resource, p.data)
	if err != nil {
		s.opts.Logger.Error("object cannot be decoded", "resource", p.of.resource, "namespace", e.namespace, "name", e.name, "err", err)
		obj = &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: e.namespace, Name: e.name}}
	}
	obj.SetResourceVersion(strconv.FormatInt(e.rev, 10))
	s.fields.share(obj)
	return obj
}

// is tells whether obj is the one that all readers of this state share.
func (e *entry) is(obj Object) bool {
	if e.packed == nil {
		return e.obj == obj
	}
	live := e.packed.live.Load()
	return live != nil && *live == obj
}

// settle lets go of the object that history no longer shows.
func (e *entry) settle() {
	if e != nil && e.packed != nil {
		e.packed.live.Store(nil)
	}
}
