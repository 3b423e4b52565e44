package policy

import (
	"context"

	"github.com/berth-dev/berth/host/policy/sandbox"
)

// Rest lets one guest tidy up, the one that was called most since it last did,
// between two cycles, and says whether another one needs it. It is called from
// the goroutine of the cycles.
func (l *Loader) Rest(context.Context) (more bool) {
	var next *sandbox.Sandbox
	untidy := 0
	look := func(boxes ...*sandbox.Sandbox) {
		for _, box := range boxes {
			if box == nil || !box.Untidy() {
				continue
			}
			untidy++
			if next == nil || box.Calls() > next.Calls() {
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
		next.Tidy()
	}
	return untidy > 1
}
