package policy

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/rollout"
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
	profiles []*v1alpha1.Profile
	// rungs are the profiles with canaries in them, by the one without.
	rungs map[*framework.Profile][]rung
}

// version is a program with the sandboxes by which it decides.
type version struct {
	is      rollout.Program
	program *program
	main    *sandbox
	// verifier answers a sample of remembered answers once more.
	verifier *sandbox
	// gate and controller ask main, where it is one.
	gate       *Gate
	controller *Controller
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
	// counts is how it differs as a shadow, since it is one.
	counts *differences
	// tried is what the canary of the last trial counted, once that is over.
	tried *differences
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
	if l == nil || l.version == nil || l.mode() != v1alpha1.Enforce || l.program.entry.Kind != kind {
		return nil
	}
	return l
}

// assemble makes profiles of what is live. open chooses the sandboxes that
// they ask.
func assemble(number int64, policies map[string]*live, profiles []*v1alpha1.Profile, open opener) *Set {
	s := &Set{Number: number, policies: policies, profiles: profiles, rungs: map[*framework.Profile][]rung{}}
	s.Scheduling = &framework.LiveSet{Number: number, Profiles: map[string]*framework.Profile{}}
	for _, object := range profiles {
		p := s.profile(object, open, 101)
		if ladder := s.ladder(object, open); len(ladder) > 0 {
			s.rungs[p] = ladder
		}
		for _, name := range schedulerNames(object) {
			s.Scheduling.Profiles[name] = p
		}
	}
	if len(s.rungs) > 0 {
		s.Scheduling.Route = route(s.rungs)
	}
	return s
}

func schedulerNames(p *v1alpha1.Profile) []string {
	if len(p.Spec.SchedulerNames) == 0 {
		return []string{p.Name}
	}
	return p.Spec.SchedulerNames
}

// opener gives the sandboxes of a program: those that it has, or others.
type opener func(*version) (main, verifier *sandbox)

func asOpened(v *version) (main, verifier *sandbox) { return v.main, v.verifier }

// profile makes a profile in which the canaries decide whose share is at least
// that large.
func (s *Set) profile(object *v1alpha1.Profile, open opener, share int32) *framework.Profile {
	p := &framework.Profile{Name: object.Name}
	choose := func(l *live) (main, verifier *sandbox) {
		if l.canary != nil && l.canary.spec.Share >= share {
			return open(l.canary.version)
		}
		return open(l.version)
	}
	seen := map[string]bool{}
	add := func(name, group string) {
		if s.policies[name].lost() && !seen[name] {
			seen[name] = true
			p.Predicates = append(p.Predicates, framework.ProfilePredicate{Policy: absent(name), Group: group})
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
		members, isGroup := group(object, predicate.Name)
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
		if l == nil || priority.Weight <= 0 {
			continue
		}
		main, verifier := choose(l)
		one := framework.ProfilePriority{Policy: main, Weight: int64(priority.Weight)}
		if verifier != nil {
			one.Verifier = verifier
		}
		p.Priorities = append(p.Priorities, one)
	}
	return p
}

func group(p *v1alpha1.Profile, name string) (members []string, ok bool) {
	for i := range p.Spec.Groups {
		if p.Spec.Groups[i].Name == name {
			return p.Spec.Groups[i].Members, true
		}
	}
	return nil, false
}

// Named says whether a profile mentions a policy.
func (s *Set) Named(policy string) bool {
	return slices.ContainsFunc(s.profiles, func(p *v1alpha1.Profile) bool { return slices.Contains(names(p), policy) })
}

// names returns the policies that a profile mentions, groups resolved, each once.
func names(p *v1alpha1.Profile) []string {
	var all []string
	for _, predicate := range p.Spec.Predicates {
		if members, ok := group(p, predicate.Name); ok {
			all = append(all, members...)
			continue
		}
		all = append(all, predicate.Name)
	}
	for _, priority := range p.Spec.Priorities {
		all = append(all, priority.Name)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// fresh opens the programs of a set once more, in sandboxes of their own.
func (l *Loader) reopen(ctx context.Context, s *Set) (*framework.LiveSet, func(), error) {
	f := l.newReopener(ctx)
	set := assemble(s.Number, s.policies, s.profiles, f.open).Scheduling
	if f.err != nil {
		f.release()
		return nil, nil, f.err
	}
	return set, f.release, nil
}

// fresh opens programs in sandboxes that nobody else asks.
type reopener struct {
	borrow func(*program) (*program, error)
	opened map[*program]*sandbox
	err    error // of the programs that cannot be had any more
}

func (l *Loader) newReopener(ctx context.Context) *reopener {
	return &reopener{
		borrow: func(p *program) (*program, error) { return l.borrow(ctx, p) },
		opened: map[*program]*sandbox{},
	}
}

func (f *reopener) open(v *version) (main, verifier *sandbox) {
	box := f.opened[v.program]
	if box != nil {
		return box, nil
	}
	p, err := f.borrow(v.program)
	if err != nil {
		f.err = errors.Join(f.err, err)
		return newSandbox(v.program), nil
	}
	box = newSandbox(p).aside(p.health.copied())
	f.opened[v.program] = box
	return box, nil
}

func (f *reopener) release() {
	for _, box := range f.opened {
		box.close()
		box.release()
	}
}
