package policy

import (
	"cmp"
	"slices"

	"github.com/berth-dev/berth/host/policy/trial"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/schedule/framework"
)

// canary is a version on trial.
type canary struct {
	*version
	*trial.Trial
}

// ladder makes the profiles with canaries in them, the smallest share first.
func (s *Set) ladder(object *v1alpha1.Profile, open opener) []trial.Rung {
	var pairs []trial.Pair
	for _, name := range object.Names() {
		if l := s.policies[name]; l != nil && l.canary != nil && l.mode() == v1alpha1.Enforce {
			pairs = append(pairs, trial.Pair{Trial: l.canary.Trial, Live: l.main, Tried: l.canary.main})
		}
	}
	slices.SortFunc(pairs, func(a, b trial.Pair) int { return cmp.Compare(a.Trial.Share, b.Trial.Share) })
	var ladder []trial.Rung
	for i, p := range pairs {
		if share := p.Trial.Share; i == 0 || pairs[i-1].Trial.Share != share {
			ladder = append(ladder, trial.Rung{Below: share, Profile: s.profile(object, open, share), Pairs: pairs[i:]})
		}
	}
	return ladder
}

// compare gives the live set's profiles what compares shadows and canaries
// with what decides.
func (s *Set) compare() {
	done := map[*framework.Profile]bool{}
	for _, object := range s.profiles {
		shadows := s.shadows(object)
		for _, name := range object.Schedulers() {
			p := s.Scheduling.Profiles[name]
			if p == nil || done[p] {
				continue
			}
			done[p] = true
			p.After = trial.After(shadows)
			for _, r := range s.rungs[p] {
				r.Profile.After = trial.After(slices.Concat(shadows, r.Pairs))
			}
		}
	}
}

// shadows are the policies that a profile names whose mode is Shadow.
func (s *Set) shadows(object *v1alpha1.Profile) (all []trial.Pair) {
	for _, name := range object.Names() {
		if l := s.policies[name]; l != nil && l.version != nil && l.mode() == v1alpha1.Shadow {
			all = append(all, trial.Pair{Trial: l.shadow, Tried: l.main})
		}
	}
	return all
}
