package policy

import (
	"context"
	"maps"
	"slices"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/schedule"
)

// Set is all that is live at one moment. It is never changed.
type Set struct {
	// Number is the store's revision that the set was made from.
	Number int64
	// Scheduling is the part that decides where pods go.
	Scheduling *schedule.LiveSet

	policies map[string]*live
	profiles []*v1alpha1.Profile
}

// live is one Policy as a set holds it.
type live struct {
	object  *v1alpha1.Policy
	program *program
	main    *sandbox
	// twin answers a sample of remembered answers once more.
	twin *sandbox
	// gate and controller ask main, where it is one.
	gate       *Gate
	controller *Controller
	// canary decides a share of the pods; nil without one.
	canary *live
	// key covers what the program was made from.
	key string
	// refused is why the Policy's newest spec did not go live.
	refused string
	// former are the programs before this one, newest first, kept warm.
	former []*live
}

func (l *live) mode() v1alpha1.Mode {
	if l.object.Spec.Mode == "" {
		return v1alpha1.Enforce
	}
	return l.object.Spec.Mode
}

// failsOpen says whether a predicate admits where its policy fails.
func (l *live) failsOpen() bool { return l.object.Spec.FailureMode == v1alpha1.Open }

// ordered are the names of all policies, sorted.
func (s *Set) ordered() []string { return slices.Sorted(maps.Keys(s.policies)) }

// enforced returns the policy of that name, if it decides and is of the kind.
func (s *Set) enforced(name, kind string) *live {
	l := s.policies[name]
	if l == nil || l.program == nil || l.mode() != v1alpha1.Enforce || l.program.entry.Kind != kind {
		return nil
	}
	return l
}

// assemble makes profiles of what is live.
func assemble(number int64, policies map[string]*live, profiles []*v1alpha1.Profile) *Set {
	s := &Set{Number: number, policies: policies}
	s.Scheduling = &schedule.LiveSet{Number: number, Profiles: map[string]*schedule.Profile{}}
	canaries := map[*schedule.Profile]*schedule.Profile{}
	for _, object := range profiles {
		p := s.profile(object, mainOf)
		p.After = s.shadows(object)
		if s.hasCanary(object) {
			canaries[p] = s.profile(object, canaryOf)
		}
		for _, name := range schedulerNames(object) {
			s.Scheduling.Profiles[name] = p
		}
	}
	if len(canaries) > 0 {
		s.Scheduling.Route = s.route(canaries)
	}
	s.Scheduling.Fresh = s.fresh(profiles)
	return s
}

func schedulerNames(p *v1alpha1.Profile) []string {
	if len(p.Spec.SchedulerNames) == 0 {
		return []string{p.Name}
	}
	return p.Spec.SchedulerNames
}

// pick chooses which of a policy's programs a profile runs.
type pick func(*live) (main, twin *sandbox)

func mainOf(l *live) (main, twin *sandbox) { return l.main, l.twin }

func (s *Set) profile(object *v1alpha1.Profile, choose pick) *schedule.Profile {
	p := &schedule.Profile{Name: object.Name}
	seen := map[string]bool{}
	add := func(name, group string) {
		l := s.enforced(name, abi.KindPredicate)
		if l == nil || seen[name] {
			return
		}
		seen[name] = true
		main, twin := choose(l)
		one := schedule.ProfilePredicate{Policy: main, Group: group, FailOpen: l.failsOpen()}
		if twin != nil {
			one.Twin = twin
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
		main, twin := choose(l)
		one := schedule.ProfilePriority{Policy: main, Weight: int64(priority.Weight)}
		if twin != nil {
			one.Twin = twin
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

// names returns the policies that a profile mentions, groups resolved.
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
	return slices.Compact(all)
}

// fresh opens the same programs once more, in sandboxes of their own.
func (s *Set) fresh(profiles []*v1alpha1.Profile) func(context.Context) (*schedule.LiveSet, func(), error) {
	return func(context.Context) (*schedule.LiveSet, func(), error) {
		var opened []*sandbox
		again := map[*program]*sandbox{}
		choose := func(l *live) (main, twin *sandbox) {
			box := again[l.program]
			if box == nil {
				box = newSandbox(l.program)
				again[l.program] = box
				opened = append(opened, box)
			}
			return box, nil
		}
		set := &schedule.LiveSet{Number: s.Number, Profiles: map[string]*schedule.Profile{}}
		for _, object := range profiles {
			p := s.profile(object, choose)
			for _, name := range schedulerNames(object) {
				set.Profiles[name] = p
			}
		}
		release := func() {
			for _, box := range opened {
				box.close()
			}
		}
		return set, release, nil
	}
}
