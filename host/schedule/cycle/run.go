package cycle

import (
	"fmt"

	"github.com/berth-dev/berth/host/schedule/profile"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

const rowRemove = snapshot.RowRemove

// run is one cycle.
type run struct {
	log     snapshot.Log
	pod     *snapshot.Pod
	profile *profile.Profile
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
	// whole is the reason of a policy that refused the pod on every row.
	whole profile.ReasonID
}

// Failure is a policy that failed during a cycle.
type Failure struct {
	Policy string
	Err    error
}

// predicateFailed notes a failure and returns the verdict for the rows that
// the predicate left without one.
func (d *Decider) predicateFailed(r *run, i int, err error) profile.ReasonID {
	p := &r.profile.Predicates[i]
	name := p.Policy.Info().Name
	r.tainted = true
	r.failures = append(r.failures, Failure{Policy: name, Err: fmt.Errorf("ask %s: %w", name, err)})
	if p.FailOpen {
		return 0
	}
	return d.reasons.Intern(profile.Reason{Policy: name, Text: "policy " + name + " failed"})
}

// priorityFailed notes a failure: the priority scores nothing in this cycle.
func (d *Decider) priorityFailed(r *run, i int, err error) {
	name := r.profile.Priorities[i].Policy.Info().Name
	r.tainted = true
	r.failures = append(r.failures, Failure{Policy: name, Err: fmt.Errorf("ask %s: %w", name, err)})
}
