package snapshot

import (
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
)

// Ref is how the log and traces hold a pod: as it is while it counts anywhere,
// and as its encoded bytes, a fifth of that, once it is gone; or by what it
// became when it was placed. It is safe for concurrent use.
type Ref struct {
	pod     atomic.Pointer[Pod]
	packed  atomic.Pointer[[]byte]
	earlier atomic.Pointer[earlierPod]
}

// Ref is what to keep of a pod that may be asked for long after it is gone.
func (p *Pod) Ref() *Ref { return p.ref }

// Pod is the pod, put together again if it was packed.
func (r *Ref) Pod() *Pod {
	if p := r.pod.Load(); p != nil {
		return p
	}
	if e := r.earlier.Load(); e != nil {
		return e.pod()
	}
	object := new(v1.Pod)
	_ = object.Unmarshal(*r.packed.Load()) // what Pack wrote
	return NewPod(object)
}

// Pack lets go of a pod that is gone, and keeps its bytes; the managed fields,
// which no decision depends on, are left out. It returns how many bytes are
// kept for it from now on that were not before.
func (r *Ref) Pack() int {
	p := r.pod.Load()
	if p == nil {
		return 0
	}
	if r.packed.Load() != nil {
		r.pod.Store(nil)
		return 0
	}
	object := *p.Object
	object.ManagedFields = nil
	data, err := object.Marshal()
	if err != nil {
		return p.Weight() // it stays as it is
	}
	r.packed.Store(&data)
	r.pod.Store(nil)
	return sized(len(data)) + refBytes
}

// Became lets go of a pod that counts as another now, which a Locator made of it. It
// returns how many bytes are kept for it from now on that were not before.
func (r *Ref) Became(on *Pod) int {
	p := r.pod.Load()
	if p == nil || on.ref == r {
		return 0
	}
	r.earlier.Store(&earlierPod{on.ref, labelsOf(p.Object.Labels)})
	r.pod.Store(nil)
	return earlierBytes
}

// What things take in memory, as heap profiles tell it.
const (
	refBytes     = 48 // a Ref and the head of its bytes
	earlierBytes = 64
	podBytes     = 2048
)

// Weight is about what a pod takes with its object: the structs, and what its
// texts, maps and lists take beyond their encoding.
func (p *Pod) Weight() int { return podBytes + 5*p.Object.Size()/2 }

// sized is what an allocation of n bytes takes: classes lie an eighth apart.
func sized(n int) int { return n + n/16 + 8 }
