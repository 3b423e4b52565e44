package policy

import (
	"context"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/engine"
)

// tidyAfter is how many calls a guest may have had before it is asked to tidy
// up: to collect its garbage costs a millisecond or more.
const tidyAfter = 256

// Rest lets one guest tidy up, the one that was called most since it last did,
// between two cycles, and says whether another one needs it. It is called from
// the goroutine of the cycles.
func (l *Loader) Rest(context.Context) (more bool) {
	var next *sandbox
	untidy := 0
	look := func(boxes ...*sandbox) {
		for _, box := range boxes {
			if box == nil || !box.untidy() {
				continue
			}
			untidy++
			if next == nil || box.calls > next.calls {
				next = box
			}
		}
	}
	for _, one := range l.Current().policies {
		if one.gate != nil || one.controller != nil {
			continue
		}
		look(one.main, one.verifier)
		if one.canary != nil {
			look(one.canary.main, one.canary.verifier)
		}
	}
	if next != nil {
		next.tidy()
	}
	return untidy > 1
}

func (s *sandbox) untidy() bool { return s.calledSince(tidyAfter) }

func (s *sandbox) calledSince(calls int) bool {
	return s.instance != nil && s.calls >= calls && s.module.Has(engine.FuncIdle)
}

// askedTidyAfter is tidyAfter of a gate or a controller: each call brings whole
// objects, which are garbage afterwards, and between two calls nobody waits.
const askedTidyAfter = 16

// rest lets a gate's or a controller's guest tidy up after a call.
func (a *objectGuest) idle() {
	if a.box.calledSince(askedTidyAfter) {
		a.box.tidy()
	}
}

// tidy has the guest collect its garbage. One that says it would be smaller if
// it were built anew is: the next cycle builds it. So is one that fails, and
// that counts as a failure, lest it costs each round a budget and a rebuild.
func (s *sandbox) tidy() {
	s.calls, s.about = 0, subject{}
	r, err := s.instance.Call(engine.FuncIdle, nil, engine.IdleBudget(s.instance.MemoryBytes(), s.slots))
	switch {
	case err != nil && s.worn(err):
		s.log.Debug("policy is built anew, since it could not tidy up after long use", "error", err)
		s.close()
	case err != nil:
		_ = s.fail(err)
	case r.Status == abi.IdleRebuild || s.outgrown():
		s.log.Debug("policy is built anew, to be smaller")
		s.close()
	}
}
