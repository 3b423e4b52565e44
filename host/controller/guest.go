package controller

import (
	"context"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/wire"
)

// Kind is a kind of objects that a guest reads, and the fields of it that it
// is given.
type Kind = abi.ObjectKind

// Object is an object with those of its fields that the guest asked for.
type Object = wire.ControlObject

// Input is what a guest is asked about.
type Input = wire.ReconcileInput

// A Guest decides what a parent's children should be.
type Guest interface {
	Name() string
	Parent() Kind
	Children() []Kind
	Related() []Kind
	// Seeded: it is given a seed with each question.
	Seeded() bool
	Reconcile(ctx context.Context, in *Input) (*abi.ReconcileResult, error)
}
