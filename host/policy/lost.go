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

// errAbsent is what a predicate answers that decided once and cannot be loaded
// any more.
var errAbsent = errors.New("no revision of the policy can be loaded, see its status")

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

// absent stands in a profile for a predicate that is lost, and fails. It has no
// identity: there is nothing to derive its decisions from.
type absent string

// Info implements framework.Policy.
func (a absent) Info() *framework.Info { return &framework.Info{Name: string(a)} }

// Pod implements framework.Policy.
func (a absent) Pod(context.Context, snapshot.Log, *snapshot.Pod, int64) (framework.Answer, error) {
	return framework.Answer{}, fmt.Errorf("policy %s: %w", string(a), errAbsent)
}

// Filter implements framework.Predicate.
func (a absent) Filter(context.Context, []int32, []framework.ReasonID) error {
	return fmt.Errorf("policy %s: %w", string(a), errAbsent)
}
