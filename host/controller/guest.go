package controller

import (
	"context"
	"encoding/json"
	"time"

	"github.com/berth-dev/berth/host/store"
)

// Kind is a kind of objects that a guest reads, and the fields of it that it
// is given, as paths such as spec.replicas.
type Kind struct {
	APIVersion string
	Kind       string
	Fields     []string
}

// A Guest decides what a parent's children should be.
type Guest interface {
	Name() string
	Parent() Kind
	Children() []Kind
	Related() []Kind
	Reconcile(ctx context.Context, in *Input) (*Outcome, error)
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

// Outcome is what a guest wants done.
type Outcome struct {
	// Status replaces the parent's status; empty leaves it.
	Status json.RawMessage
	Create []Creation
	// Delete, Adopt and Release are UIDs of children that the guest was given.
	Delete, Adopt, Release []string
	Events                 []Event
	// Again is when to ask anew though nothing changed; 0 for never.
	Again time.Duration
}

// Creation is a child wanted, Count times.
type Creation struct {
	Count  int64
	Object json.RawMessage
}

// Event is something that users should know of the parent.
type Event struct{ Type, Reason, Message string }
