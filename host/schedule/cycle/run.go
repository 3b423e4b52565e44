package cycle

import (
	"fmt"

	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

const rowRemove = snapshot.RowRemove

// run is one cycle.
type run struct {
	log     snapshot.Log
	pod     *snapshot.Pod
	profile *framework.Profile
	now     int64
	seed    uint64

	// predicates and priorities are the conversations with the profile's policies.
	predicates []session
	priorities []session
	// remembered and asked afresh: indexes of the profile's predicates.
	remembered []int
	afresh     []int
	// afreshScores are the priorities that are asked afresh.
	afreshScores []int
	// tainted says that a policy failed, so that nothing put together now stands.
	tainted  bool
	failures []Failure
	// shut is why no row can have the pod, since a priority that fails closed did.
	shut framework.ReasonID
	// coarse says that answers turned out to depend on more than the rows were divided
	// by, and finer how often they were divided again.
	coarse bool
	finer  int
	// foreseen counts by predicate how often it was asked what would be.
	foreseen []int
	// questions is how many it was asked of these in all.
	questions int
	// again are failures of a decision that is made again.
	again []Failure
}

// failsAgain is how a policy shall fail, nil if it shall not: where it is asked
// about what is, or about what would be for that many times.
func (r *run) failsAgain(policy framework.Policy, foreseeing int) *Failure {
	for k := range r.again {
		if f := &r.again[k]; f.Foreseeing == foreseeing && f.Policy == policy.Info().Name {
			return f
		}
	}
	return nil
}

// Failure is a policy that failed during a cycle.
type Failure struct {
	Policy string
	Err    error
	// Rows are those that a predicate left without a verdict: the others had
	// been answered before and were remembered. Sorted.
	Rows []int32
	// Foreseeing is which of its answers about what would be failed, from 1 on; 0
	// where it was asked about what is.
	Foreseeing int
}

// failed notes a failure. A policy that fails once more where rows are divided again
// has failed for the first reason.
func (r *run) failed(f Failure) {
	r.tainted = true
	for i := range r.failures {
		if known := &r.failures[i]; known.Policy == f.Policy && known.Foreseeing == f.Foreseeing && r.finer > 0 {
			known.Rows = f.Rows
			return
		}
	}
	r.failures = append(r.failures, f)
}

// predicateFailed notes a failure and returns the verdict for the rows that
// the predicate left without one.
func (d *Decider) predicateFailed(r *run, i int, failure Failure) framework.ReasonID {
	p := &r.profile.Predicates[i]
	failure.Policy = p.Policy.Info().Name
	failure.Err = fmt.Errorf("ask %s: %w", failure.Policy, failure.Err)
	r.failed(failure)
	if p.FailOpen {
		return 0
	}
	return d.reasons.Intern(FailureReason(failure.Policy))
}

// FailureReason is why rows are refused when a policy fails.
func FailureReason(policy string) framework.Reason {
	return framework.Reason{Policy: policy, Text: "policy " + policy + " failed"}
}

// priorityFailed notes a failure: the priority scores nothing in this cycle, or
// the pod waits.
func (d *Decider) priorityFailed(r *run, i int, err error) {
	name := r.profile.Priorities[i].Policy.Info().Name
	r.failed(Failure{Policy: name, Err: fmt.Errorf("ask %s: %w", name, err)})
	if r.profile.Priorities[i].FailClosed {
		r.shut = d.reasons.Intern(FailureReason(name))
	}
}
