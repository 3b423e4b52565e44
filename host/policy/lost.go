package policy

import (
	"context"
	"errors"
	"fmt"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// What a predicate answers that decided once and cannot be loaded any more, and
// what a name answers that no predicate has.
var (
	errLost    = errors.New("no revision of the policy can be loaded, see its status")
	errUnknown = errors.New("no policy has this name: create it, or take it out of the profile")
	errOther   = errors.New("the policy is no predicate: take it out of the profile's predicates")
)

// absence says why a name among a profile's predicates refuses all nodes, nil
// where it does not: to go on without it would let in what it is there to keep
// out.
func (s *Set) absence(name string) error {
	switch l := s.policies[name]; {
	case l == nil && !s.coming[name]:
		return errUnknown
	case l.lost():
		return errLost
	case l != nil && l.version != nil && l.mode() == v1alpha1.Enforce && l.program.Kind() != abi.KindPredicate:
		return errOther
	}
	return nil
}

// lost says that a predicate decided once and that no revision of it can be
// loaded since the host was started: its module is gone, or its key withdrawn.
// To go on without it would let in what it is there to keep out, unless it is
// to fail open.
func (l *live) lost() bool {
	if l == nil || l.version != nil || l.mode() != v1alpha1.Enforce || l.state.Policy.FailsOpen() {
		return false
	}
	s := &l.state.Policy.Status
	return s.Current != nil && s.Kind == abi.KindPredicate
}

// absent stands in a profile for a predicate that is not there, and fails. It has
// no identity: there is nothing to derive its decisions from.
type absent struct {
	name string
	why  error
}

// Info implements framework.Policy.
func (a absent) Info() *framework.Info { return &framework.Info{Name: a.name} }

// Pod implements framework.Policy.
func (a absent) Pod(context.Context, snapshot.Log, *snapshot.Pod, int64) (framework.Answer, error) {
	return framework.Answer{}, a.fail()
}

// Filter implements framework.Predicate.
func (a absent) Filter(context.Context, []int32, []framework.ReasonID) error { return a.fail() }

func (a absent) fail() error { return fmt.Errorf("policy %s: %w", a.name, a.why) }
