package controller

import (
	"context"
	"encoding/json"
	"time"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/store"
)

// Kind is a kind of objects that a guest reads, and the fields of it that it
// is given.
type Kind = abi.ObjectKind

// A Guest decides what a parent's children should be.
type Guest interface {
	Name() string
	Parent() Kind
	Children() []Kind
	Related() []Kind
	Reconcile(ctx context.Context, in *Input) (*abi.Outcome, error)
}

// Input is what a guest is given.
type Input struct {
	Now      time.Time
	Parent   Object
	Children []Object
	Related  []Object
}

// Object is an object with those of its fields that the guest asked for.
type Object struct {
	Kind   Kind
	Object store.Object
	// Fields holds the JSON of each of Kind.Fields, empty where there is none.
	Fields []json.RawMessage
}
