package framework

import (
	"context"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// Info is what a policy declares of itself.
type Info struct {
	Name  string
	Reads abi.Groups
	Scope abi.Scope
	// SkipDependsOn is what it depends on whether the policy skips a pod.
	SkipDependsOn abi.Groups
	// Normalize is a priority's way from raw scores to 0…100.
	Normalize abi.Normalization
	// Identity covers module digest, entry and config: answers are remembered under it.
	Identity [32]byte
}

// Metered is a policy whose work is counted. What it takes in a cycle all profiles
// wait for, however fast each of its calls is.
type Metered interface {
	// Burnt is what it took since it was last asked for that, in fuel.
	Burnt() int64
	// Shed is told that the policies of a profile took more in a cycle than they
	// may together, and that this one took the most of it.
	Shed(burnt, all, most int64)
}

// CycleFuel is what the policies of a profile may take together for one pod: twice
// what a single one may for one question, where a question of what would be counts as
// a row. Pods and objects that policies were told of count for what they take to
// collect: a guest may come to do so in any cycle.
func CycleFuel(rows, told int) int64 {
	return 64_000_000 + int64(rows)*80_000 + int64(told)*12_000
}

// ReasonID numbers a reason in the host's own table; 0 is "admitted". The
// table (see Reasons) is append-only, bounded, and shared by all policies.
type ReasonID uint32

// Answer is what a policy says of a pod before any row is asked.
type Answer struct {
	Ask abi.Ask
	// Reason is set with abi.AskRefuse. Words say it by name (a claim's, say), where
	// the policy does: the table of reasons has room for few.
	Reason ReasonID
	Words  string
}

// Policy is what predicates and priorities share. All calls of one cycle come
// from one goroutine. An error means that the policy failed as a whole: the
// caller applies the policy's failure mode, the callee has already replaced
// its instance.
type Policy interface {
	Info() *Info
	// Pod brings the policy up to date with log and starts a cycle for pod.
	Pod(ctx context.Context, log snapshot.Log, pod *snapshot.Pod, now int64) (Answer, error)
}

// A Predicate tells which rows admit the pod of the cycle.
type Predicate interface {
	Policy
	// Filter fills verdicts, one for each of rows: 0 admits.
	Filter(ctx context.Context, rows []int32, verdicts []ReasonID) error
}

// A Priority scores rows for the pod of the cycle; the higher the better.
type Priority interface {
	Policy
	// Score fills raw scores, one for each of rows, within ±abi.MaxScore. A
	// policy of scope set is given the whole feasible set at once.
	Score(ctx context.Context, rows []int32, raw []int64) error
}

// A Depender is a policy of scope row that tells what its answers about the pod of
// the cycle have depended on so far, where that is less than all that it reads. Nil
// is all. It is asked after Pod, and after each Filter and Score, upon which there may
// be more. A policy whose answers depend on anything else is found out as one whose
// answers are not repeatable.
type Depender interface {
	Depends(ctx context.Context) (*abi.Depends, error)
}

// WhatIf is one question of preemption or planning: with these deltas applied
// and nothing else changed, does row admit the pod of the cycle?
type WhatIf struct {
	Deltas []snapshot.Delta
	Row    int32
}

// A Foreseer answers WhatIf questions, each by itself, never remembered. Every
// predicate that a guest implements is one.
type WhatIfer interface {
	WhatIf(ctx context.Context, questions []WhatIf, verdicts []ReasonID) error
}
