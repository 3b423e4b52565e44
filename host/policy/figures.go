package policy

import (
	"context"
	"slices"

	"github.com/berth-dev/berth/host/policy/module"
	"github.com/berth-dev/berth/host/policy/sandbox"
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
