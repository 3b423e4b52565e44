package sandbox

import (
	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/engine"
)

// tidyAfter is how many calls a guest may have had before it is asked to tidy
// up: to collect its garbage costs a millisecond or more.
const tidyAfter = 256

// Untidy is how many calls the guest has had since it last tidied up, 0 while
// they are too few to do so.
func (s *Sandbox) Untidy() int { return untidy(s, tidyAfter) }

func untidy(s *Sandbox, after int) int {
	if s.instance == nil || s.calls < after || !s.module.Has(engine.FuncIdle) {
		return 0
	}
	return s.calls
}

// askedTidyAfter is tidyAfter of a gate or a controller: each call brings whole
// objects, which are garbage afterwards, and between two calls nobody waits.
const askedTidyAfter = 16

// idle lets a gate's or a controller's guest tidy up after a call.
func (a *objectGuest) idle() {
	if untidy(a.box, askedTidyAfter) > 0 {
		// To collect is what a call of its size has room for, too.
		a.box.tidy(engine.AskBudget(a.box.slots/engine.SlotsOf(1), a.box.slots, 0, a.box.instance.MemoryBytes()))
	}
}

// Tidy has the guest collect its garbage. One that says it would be smaller if
// it were built anew is: the next cycle builds it. So is one that fails, and
// that counts as a failure, lest it costs each round a budget and a rebuild.
func (s *Sandbox) Tidy() { s.tidy(engine.IdleBudget(s.instance.MemoryBytes(), s.slots)) }

func (s *Sandbox) tidy(budget engine.Fuel) {
	s.calls, s.about = 0, subject{}
	r, err := s.instance.Call(engine.FuncIdle, nil, budget)
	switch {
	case err != nil && s.worn(err):
		s.log.Debug("policy is built anew, since it could not tidy up after long use", "err", err)
		s.Close()
	case err != nil:
		_ = s.fail(err)
	case r.Status == abi.IdleRebuild || s.outgrown():
		s.log.Debug("policy is built anew, to be smaller")
		s.Close()
	}
}
