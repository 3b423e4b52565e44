package trial

import (
	"context"
	"slices"

	"github.com/berth-dev/berth/host/policy/sandbox"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// Pair is a trial with what is live and what is tried.
type Pair struct {
	Trial       *Trial
	Live, Tried *sandbox.Sandbox
}

// Rung is the profile for pods whose share is below a bound. The canaries of
// several policies may decide different shares; those of a small share are
// within those of a larger one.
type Rung struct {
	Below   int32
	Profile *framework.Profile
	Pairs   []Pair
}

// over says whether one of its canaries has failed: then nobody goes there,
// before the set without that canary is made.
func (r *Rung) over() bool {
	return slices.ContainsFunc(r.Pairs, func(p Pair) bool { return p.Trial.over() })
}

// place is a pod's place in 0…99, the same each time that it is tried.
func place(pod *snapshot.Pod) int32 { return int32(spread(pod) % 100) }

func spread(pod *snapshot.Pod) uint32 { return number(pod.UID()) }

// Route sends a share of the pods to the profiles with the canaries in them, by
// the rungs of each profile, the smallest share first.
func Route(ladders map[*framework.Profile][]Rung) func(*snapshot.Pod, *framework.Profile) *framework.Profile {
	return func(pod *snapshot.Pod, p *framework.Profile) *framework.Profile {
		ladder := ladders[p]
		if len(ladder) == 0 {
			return p
		}
		at := place(pod)
		for i := range ladder {
			if at < ladder[i].Below && !ladder[i].over() {
				return ladder[i].Profile
			}
		}
		return p
	}
}

// After compares at the end of each cycle; nil if there is nothing to compare.
func After(pairs []Pair) func(context.Context, snapshot.Log, *snapshot.Pod, int64, framework.Outcome) {
	if len(pairs) == 0 {
		return nil
	}
	return func(ctx context.Context, log snapshot.Log, pod *snapshot.Pod, now int64, seen framework.Outcome) {
		about := Cycle{Log: log, Pod: pod, Now: now, Seen: seen}
		for _, p := range pairs {
			p.Trial.Compare(ctx, p.Live, p.Tried, &about)
		}
	}
}
