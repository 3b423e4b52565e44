package trial

import (
	"sync"

	"github.com/berth-dev/berth/host/policy/sandbox"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

// maxProvenance bounds how many programs are known by which decisions were made.
const maxProvenance = 4096

// Provenance tells how programs were made that have decided, so that their
// decisions can be derived again after they have left.
type Provenance struct {
	mu    sync.Mutex
	by    map[[32]byte]*v1alpha1.Policy
	order [][32]byte
}

// Keep notes how a program was made.
func (r *Provenance) Keep(p *sandbox.Program, from *v1alpha1.Policy) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by[p.Identity()] != nil {
		return
	}
	if r.by == nil {
		r.by = map[[32]byte]*v1alpha1.Policy{}
	}
	if len(r.order) >= maxProvenance {
		delete(r.by, r.order[0])
		r.order = r.order[1:]
	}
	spec := v1alpha1.PolicySpec{Module: v1alpha1.ModuleName(p.Digest()), Entry: p.Entry(), Config: from.Spec.Config, Limits: from.Spec.Limits}
	r.by[p.Identity()] = &v1alpha1.Policy{ObjectMeta: from.ObjectMeta, Spec: spec}
	r.order = append(r.order, p.Identity())
}

// Get is the Policy by which a program was made, nil if that is forgotten.
func (r *Provenance) Get(identity [32]byte) *v1alpha1.Policy {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.by[identity]
}
