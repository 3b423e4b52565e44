package sandbox

import (
	"errors"

	"github.com/berth-dev/berth/host/policy/engine"
)

// wear is what long use has made of an instance. A guest keeps what it was told,
// and its collector walks all of that; one that is built anew holds what the
// cluster has now. So an instance that ran out of fuel after it did well for
// long is no failure: another one is asked. If that fails too, it is.
type wear struct {
	calls int    // that went well since it was told the cluster
	young uint64 // bytes of memory that it had then; 0 before
}

// wornAfter is how many calls make an instance one that did well.
const wornAfter = 64

// errWorn says that the instance was closed, and that a new one may do.
var errWorn = errors.New("the instance was worn out")

// worn says whether err is of the use that the instance has had.
func (s *Sandbox) worn(err error) bool {
	return s.wear.young > 0 && s.wear.calls >= wornAfter && SpentFuel(err) && !s.retired.Load()
}

// outgrown says whether the guest holds so much more than it began with that its
// budgets shrink, and would be smaller if it were built anew.
func (s *Sandbox) outgrown() bool {
	have := s.instance.MemoryBytes()
	return s.wear.young > 0 && have > 2*s.wear.young && engine.Outgrown(have, s.slots)
}
