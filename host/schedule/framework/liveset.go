package framework

import (
	"context"

	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// LiveSet is all policies that decide, at one moment. It is never changed: a
// swap makes another one, and a cycle holds the one that it began with.
type LiveSet struct {
	Number int64
	// Profiles are found by spec.schedulerName; a pod whose name stands for
	// none of them is left alone.
	Profiles map[string]*Profile
	// Route picks another profile for a pod than its schedulerName does, for
	// canaries: it must be pure, by the pod's hash. Nil leaves it as it is.
	Route func(pod *snapshot.Pod, p *Profile) *Profile
	// Fresh opens the same policies once more, in instances of their own, to
	// judge a past state beside the live cycle. Nil where that is not possible.
	Reopen func(ctx context.Context) (set *LiveSet, release func(), err error)
	// Recall opens the very policies that a digest names, which may have left
	// the set since. Nil where that is not possible.
	OpenDigest func(ctx context.Context, d *Digest) (p *Profile, release func(), err error)
}

// For returns the profile that decides for a pod, nil where none does.
func (s *LiveSet) For(pod *snapshot.Pod) *Profile {
	if s == nil {
		return nil
	}
	p := s.Profiles[pod.Object.Spec.SchedulerName]
	if p == nil || s.Route == nil {
		return p
	}
	return s.Route(pod, p)
}

// Profile is the predicates in their order and the priorities with their weights.
type Profile struct {
	Name       string
	Predicates []ProfilePredicate
	Priorities []ProfilePriority
	// After is called at the end of each cycle, from the cycle's goroutine,
	// before the pod counts anywhere; shadows run there. May be nil.
	After func(ctx context.Context, log snapshot.Log, pod *snapshot.Pod, now int64, seen Outcome)
}

// Seen is what a shadow may compare itself with: the outcome for each of rows.
type Outcome struct {
	Rows []int32
	// Refused says by row whether the profile's predicates refused it.
	Refused func(row int32) bool
	// Winner is the slot that was picked, -1 for none.
	Winner int32
}

// Predicated is a predicate in a profile.
type ProfilePredicate struct {
	Policy Predicate
	// Twin is a second instance of the same policy, of which a sample of
	// remembered answers is asked again. Nil: not checked.
	Verifier Predicate
	// Group names the set of predicates that it belongs to, empty for none.
	Group string
	// FailOpen admits where the policy fails; else it refuses.
	FailOpen bool
}

// Prioritized is a priority in a profile.
type ProfilePriority struct {
	Policy   Priority
	Verifier Priority
	Weight   int64
	// FailClosed lets no row have the pod where the policy fails; else it counts
	// for nothing then, on any row.
	FailClosed bool
}

// Digest names what a profile's policies are, for traces, without holding on
// to their instances.
type Digest struct {
	Profile  string
	Policies []PolicyDigest
}

// PolicyDigest is one policy of a Digest.
type PolicyDigest struct {
	Name     string
	Identity [32]byte
	// Priority, with its Weight; else a predicate, with its Group and whether
	// it admits where it fails.
	Priority   bool
	Weight     int64
	FailClosed bool
	Group      string
	FailOpen   bool
}

// Digest returns the profile's digest.
func (p *Profile) Digest() *Digest {
	d := &Digest{Profile: p.Name}
	for _, m := range p.Predicates {
		d.Policies = append(d.Policies, PolicyDigest{Name: m.Policy.Info().Name, Identity: m.Policy.Info().Identity, Group: m.Group, FailOpen: m.FailOpen})
	}
	for _, m := range p.Priorities {
		d.Policies = append(d.Policies, PolicyDigest{Name: m.Policy.Info().Name, Identity: m.Policy.Info().Identity, Priority: true, Weight: m.Weight, FailClosed: m.FailClosed})
	}
	return d
}
