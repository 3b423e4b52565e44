package policy

import (
	"cmp"
	"context"
	"hash/fnv"
	"slices"

	"github.com/berth-dev/berth/host/policy/sandbox"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// canary is a program on trial.
type canary struct {
	*version
	spec  v1alpha1.Canary
	trial *trial
	// counts is how it differs from what it would replace.
	counts *differences
}

// rung is the profile for pods whose share is below a bound. The canaries of
// several policies may decide different shares; those of a small share are
// within those of a larger one.
type rung struct {
	below    int32
	profile  *framework.Profile
	canaries []*canary
}

// over says whether one of its canaries has failed: then nobody goes there,
// before the set without that canary is made.
func (r *rung) over() bool {
	return slices.ContainsFunc(r.canaries, func(c *canary) bool { return c.trial.over() })
}

// ladder makes the profiles with canaries in them, the smallest share first.
func (s *Set) ladder(object *v1alpha1.Profile, open opener) []rung {
	var trials []*canary
	for _, name := range names(object) {
		if l := s.policies[name]; l != nil && l.canary != nil && l.mode() == v1alpha1.Enforce {
			trials = append(trials, l.canary)
		}
	}
	slices.SortFunc(trials, func(a, b *canary) int { return cmp.Compare(a.spec.Share, b.spec.Share) })
	var ladder []rung
	for i, c := range trials {
		if i > 0 && trials[i-1].spec.Share == c.spec.Share {
			continue
		}
		ladder = append(ladder, rung{below: c.spec.Share, profile: s.profile(object, open, c.spec.Share), canaries: trials[i:]})
	}
	return ladder
}

// place is a pod's place in 0…99, the same each time that it is tried.
func place(pod *snapshot.Pod) int32 { return int32(spread(pod) % 100) }

// spread is a number of the pod's own, the same each time that it is tried.
func spread(pod *snapshot.Pod) uint32 {
	h := fnv.New32a()
	h.Write([]byte(pod.UID()))
	return h.Sum32()
}

// route sends a share of the pods to the profiles with the canaries in them.
func route(ladders map[*framework.Profile][]rung) func(*snapshot.Pod, *framework.Profile) *framework.Profile {
	return func(pod *snapshot.Pod, p *framework.Profile) *framework.Profile {
		ladder := ladders[p]
		if len(ladder) == 0 {
			return p
		}
		at := place(pod)
		for i := range ladder {
			if at < ladder[i].below && !ladder[i].over() {
				return ladder[i].profile
			}
		}
		return p
	}
}

// after is what runs at the end of each cycle.
type after = func(context.Context, snapshot.Log, *snapshot.Pod, int64, framework.Outcome)

// compare gives the live set's profiles what compares shadows and canaries
// with what decides.
func (s *Set) compare() {
	done := map[*framework.Profile]bool{}
	for _, object := range s.profiles {
		shadows := s.shadows(object)
		for _, name := range schedulerNames(object) {
			p := s.Scheduling.Profiles[name]
			if p == nil || done[p] {
				continue
			}
			done[p] = true
			p.After = comparing(shadows, nil)
			for _, r := range s.rungs[p] {
				r.profile.After = comparing(shadows, s.pairs(r.canaries))
			}
		}
	}
}

// pair is a canary and the policy that it would replace.
type pair struct {
	canary *canary
	live   *live
}

func (s *Set) pairs(canaries []*canary) []pair {
	var all []pair
	for _, c := range canaries {
		all = append(all, pair{c, s.policies[c.program.Name()]})
	}
	return all
}

// shadows are the policies that a profile names whose mode is Shadow.
func (s *Set) shadows(object *v1alpha1.Profile) []*live {
	var all []*live
	for _, name := range names(object) {
		if l := s.policies[name]; l != nil && l.version != nil && l.mode() == v1alpha1.Shadow {
			all = append(all, l)
		}
	}
	return all
}

func comparing(shadows []*live, pairs []pair) after {
	if len(shadows)+len(pairs) == 0 {
		return nil
	}
	return func(ctx context.Context, log snapshot.Log, pod *snapshot.Pod, now int64, seen framework.Outcome) {
		about := comparison{sandbox.Question{Log: log, Pod: pod, Now: now}, seen}
		for _, l := range shadows {
			l.counts.shadow(ctx, l.main, &about)
		}
		for _, p := range pairs {
			if p.canary.trial.over() {
				continue
			}
			p.canary.counts.canary(ctx, p.live.main, p.canary.main, &about)
			p.canary.trial.judge()
		}
	}
}
