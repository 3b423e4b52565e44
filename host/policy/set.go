package policy

import (
	"maps"
	"slices"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/rollout"
	"github.com/berth-dev/berth/host/policy/sandbox"
	"github.com/berth-dev/berth/host/policy/trial"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/schedule/framework"
)

// Set is all that is live at one moment. It is never changed.
type Set struct {
	// Number is the store's revision that the set was made from.
	Number int64
	// Scheduling is the part that decides where pods go.
	Scheduling *framework.LiveSet

	policies map[string]*live
	// coming are policies whose first program is being loaded.
	coming   map[string]bool
	profiles []*v1alpha1.Profile
	// holders are the profiles that decide for the names of schedulers.
	holders map[string]*v1alpha1.Profile
	// rungs are the profiles with canaries in them, by the one without.
	rungs map[*framework.Profile][]trial.Rung
}

// live is one Policy as a set holds it.
type live struct {
	// version decides; nil where no revision loads.
	*version
	state rollout.State
	// canary decides a share of the pods; nil without one.
	canary *canary
	// previous are the versions before this one, newest first, kept warm.
	previous []*version
	// shadow is its trial as a shadow, since it is one.
	shadow *trial.Trial
	// tried is what the canary of the last trial counted, once that is over.
	tried *trial.Differences
	// idle says why it is a controller that does not run.
	idle string
	// reported is what the status was written of last.
	reported statusInputs
}

func (l *live) mode() v1alpha1.Mode { return l.state.Policy.ModeOf() }

// each calls do for all versions of the Policy.
func (l *live) each(do func(*version)) {
	for _, v := range l.previous {
		do(v)
	}
	if l.canary != nil {
		do(l.canary.version)
	}
	if l.version != nil {
		do(l.version)
	}
}

// ordered are the names of all policies, sorted.
func (s *Set) ordered() []string { return slices.Sorted(maps.Keys(s.policies)) }

// enforced returns the policy of that name, if it decides and is of the kind.
func (s *Set) enforced(name, kind string) *live {
	l := s.policies[name]
	if l == nil || l.version == nil || l.mode() != v1alpha1.Enforce || l.program.Kind() != kind {
		return nil
	}
	return l
}

// with is the set as it would be with those policies and profiles.
func (s *Set) with(policies map[string]*live, profiles []*v1alpha1.Profile) *Set {
	next := *s
	next.policies, next.profiles, next.holders = policies, profiles, holders(profiles, s.holders)
	return &next
}

// assemble makes profiles of what is live. open chooses the sandboxes that
// they ask.
func (s *Set) assemble(open opener) *Set {
	s.rungs = map[*framework.Profile][]trial.Rung{}
	s.Scheduling = &framework.LiveSet{Number: s.Number, Profiles: map[string]*framework.Profile{}}
	for _, object := range s.profiles {
		p := s.profile(object, open, 101)
		if ladder := s.ladder(object, open); len(ladder) > 0 {
			s.rungs[p] = ladder
		}
		for _, name := range object.Schedulers() {
			if s.holders[name].Name == object.Name {
				s.Scheduling.Profiles[name] = p
			}
		}
	}
	if len(s.rungs) > 0 {
		s.Scheduling.Route = trial.Route(s.rungs)
	}
	return s
}

// opener gives the sandboxes of a program: those that it has, or others.
type opener func(*version) (main, verifier *sandbox.Sandbox)

func asOpened(v *version) (main, verifier *sandbox.Sandbox) { return v.main, v.verifier }

// profile makes a profile in which the canaries decide whose share is at least
// that large.
func (s *Set) profile(object *v1alpha1.Profile, open opener, share int32) *framework.Profile {
	p := &framework.Profile{Name: object.Name}
	choose := func(l *live) (main, verifier *sandbox.Sandbox) {
		if l.canary != nil && l.canary.Share >= share {
			return open(l.canary.version)
		}
		return open(l.version)
	}
	seen := map[string]bool{}
	add := func(name, group string) {
		if why := s.absence(name); why != nil && !seen[name] {
			seen[name] = true
			p.Predicates = append(p.Predicates, framework.ProfilePredicate{Policy: absent{name, why}, Group: group})
		}
		l := s.enforced(name, abi.KindPredicate)
		if l == nil || seen[name] {
			return
		}
		seen[name] = true
		main, verifier := choose(l)
		one := framework.ProfilePredicate{Policy: main, Group: group, FailOpen: l.state.Policy.FailsOpen()}
		if verifier != nil {
			one.Verifier = verifier
		}
		p.Predicates = append(p.Predicates, one)
	}
	for _, predicate := range object.Spec.Predicates {
		members, isGroup := object.Group(predicate.Name)
		if !isGroup {
			add(predicate.Name, "")
			continue
		}
		for _, member := range members {
			add(member, predicate.Name)
		}
	}
	for _, priority := range object.Spec.Priorities {
		l := s.enforced(priority.Name, abi.KindPriority)
		if l == nil {
			continue
		}
		main, verifier := choose(l)
		one := framework.ProfilePriority{Policy: main, Weight: priority.WeightOf(), FailClosed: l.state.Policy.FailsClosed()}
		if verifier != nil {
			one.Verifier = verifier
		}
		p.Priorities = append(p.Priorities, one)
	}
	return p
}

// Named says whether a profile mentions a policy.
func (s *Set) Named(policy string) bool {
	return slices.ContainsFunc(s.profiles, func(p *v1alpha1.Profile) bool { return slices.Contains(p.Names(), policy) })
}

// Gates returns the live checkers by the condition type that they claim. Where
// two claim the same, the one whose Policy comes first by name has it.
func (s *Set) Gates() map[string]*sandbox.Gate {
	gates := map[string]*sandbox.Gate{}
	for _, name := range s.ordered() {
		l := s.enforced(name, abi.KindGate)
		if l == nil {
			continue
		}
		for _, condition := range l.gate.ConditionTypes() {
			if gates[condition] == nil {
				gates[condition] = l.gate
			}
		}
	}
	return gates
}

// Controllers returns the live controllers in the order of their names.
func (s *Set) Controllers() []*sandbox.Controller {
	var all []*sandbox.Controller
	for _, name := range s.ordered() {
		if l := s.enforced(name, abi.KindController); l != nil {
			all = append(all, l.controller)
		}
	}
	return all
}

// ControllerTrials returns the controllers on trial, in the order of their
// names: canaries, and those whose mode is Shadow.
func (s *Set) ControllerTrials() (all []trial.Controllers) {
	for _, name := range s.ordered() {
		l := s.policies[name]
		switch {
		case l.version == nil || l.controller == nil:
		case l.mode() == v1alpha1.Shadow:
			all = append(all, trial.Controllers{Trial: l.shadow, Tried: l.controller})
		case l.mode() == v1alpha1.Enforce && l.canary != nil && l.canary.controller != nil:
			all = append(all, trial.Controllers{Trial: l.canary.Trial, Live: l.controller, Tried: l.canary.controller})
		}
	}
	return all
}
