package policy

import (
	"context"
	"fmt"
	"slices"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/module"
	"github.com/berth-dev/berth/host/policy/sandbox"
	"github.com/berth-dev/berth/host/policy/trial"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

// Figures returns those of all live policies, by name.
func (l *Loader) Figures() []sandbox.Figures {
	set := l.Current()
	all := make([]sandbox.Figures, 0, len(set.policies))
	for _, name := range set.ordered() {
		if v := set.policies[name].version; v != nil {
			all = append(all, v.program.Figures())
		}
	}
	return all
}

// Digest is that of the module by which a policy is live.
func (l *Loader) Digest(name string) (digest string, ok bool) {
	one := l.Current().policies[name]
	if one == nil || one.version == nil {
		return "", false
	}
	return one.program.Digest(), true
}

// GuestLog returns the last lines of the guests that a Policy has and had, the
// oldest first; ok says that there is such a Policy.
func (l *Loader) GuestLog(name string) (lines []sandbox.Line, ok bool) {
	if l.Current().policies[name] == nil {
		return nil, false
	}
	return l.programs.guestLogs.Of(name).Lines(), true
}

// Users are the policies that need a module, or may go back to it, sorted.
func (l *Loader) Users(digest string) []string {
	set := l.Current()
	return slices.DeleteFunc(set.ordered(), func(name string) bool {
		return !slices.ContainsFunc(module.References(set.policies[name].state.Policy), func(name string) bool {
			d, err := v1alpha1.Digest(name)
			return err == nil && d == digest
		})
	})
}

// Provenance is what a program that decides, or did, was made of.
func (l *Loader) Provenance(ctx context.Context, identity [32]byte) (*v1alpha1.Policy, []byte, error) {
	return l.programs.origin(ctx, identity)
}

// Rest lets one guest tidy up, the one that was called most since it last did,
// between two cycles, and says whether another one needs it. It is called from
// the goroutine of the cycles.
func (l *Loader) Rest(context.Context) (more bool) {
	var next *sandbox.Sandbox
	untidy := 0
	look := func(boxes ...*sandbox.Sandbox) {
		for _, box := range boxes {
			if box == nil || box.Untidy() == 0 {
				continue
			}
			untidy++
			if next == nil || box.Untidy() > next.Untidy() {
				next = box
			}
		}
	}
	for _, one := range l.Current().policies {
		if one.version == nil || one.gate != nil || one.controller != nil {
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

// ReconcileAgain puts a past question to the controller that answered it, as it was then:
// it is opened for this alone.
func (l *Loader) ReconcileAgain(ctx context.Context, name string, identity [32]byte, question []byte) ([]byte, error) {
	program := l.Current().made(name, identity)
	if program == nil || !program.Hold() {
		var err error
		if program, err = l.programs.remake(ctx, name, identity); err != nil {
			return nil, err
		}
	}
	return askAside(ctx, program, question)
}

// ReconcileOther puts a past question to a variation of the policy that answered it.
//
// # Errors
//
// module.ErrRefused with the reason, if the module is at fault.
func (l *Loader) ReconcileOther(ctx context.Context, v *trial.Variation, question []byte) ([]byte, error) {
	one, err := l.programs.vary(ctx, l.Current().policies[v.Name], v)
	if err != nil {
		return nil, fmt.Errorf("policy %s: %w", v.Name, err)
	}
	if kind := one.program.Kind(); kind != abi.KindController {
		one.program.Release()
		return nil, fmt.Errorf("%w: policy %s is no controller, but a %s", module.ErrRefused, v.Name, kind)
	}
	return askAside(ctx, one.program, question)
}

// askAside asks a program that it lets go of then.
func askAside(ctx context.Context, p *sandbox.Program, question []byte) ([]byte, error) {
	defer p.Release()
	box := sandbox.New(p).Aside(sandbox.NewHealth(func() {}))
	defer box.Close()
	return box.Again(ctx, question)
}
