package registry

import (
	"context"

	"github.com/berth-dev/berth/host/store"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Operation is what a request does to an object.
type Operation string

// The operations that admission sees.
const (
	Create  Operation = "CREATE"
	Update  Operation = "UPDATE"
	Delete  Operation = "DELETE"
	Connect Operation = "CONNECT"
)

// Admission decides whether a write may happen, and may change what is
// written. It is asked after authorization: Admit before Kubernetes' own
// preparation and validation of the object, Validate after it, when the object
// is what will be stored. A refusal is an error of apimachinery's api/errors;
// any other error becomes 403 Forbidden.
//
// Both may be asked more than once for one request, since a write that loses a
// race is tried again against the newer object.
type Admission interface {
	// Admit may change a.Object.
	Admit(ctx context.Context, a *Attributes) error
	// Validate may not.
	Validate(ctx context.Context, a *Attributes) error
}

// Attributes describe one write to admission.
type Attributes struct {
	Operation   Operation
	Resource    schema.GroupResource
	Subresource string
	Kind        schema.GroupVersionKind
	Namespace   string
	// Name is empty while a name is still to be generated.
	Name   string
	User   user.Info
	DryRun bool
	// Object is the new state as its k8s.io/api type; nil for Delete. For
	// subresources whose body is another kind (binding, eviction, token) it is
	// nil and Body holds what was sent; for status and scale it is the object
	// with the change applied.
	Object store.Object
	// Body is the request's own body where that is not the object itself:
	// Binding, Eviction, Scale, TokenRequest, PodExecOptions and the like.
	Body runtime.Object
	// Old is the stored state; nil for Create. It must not be changed.
	Old store.Object

	ops      []store.Op
	undo     []func()
	warnings []string
	annotate func(key, value string)
}

// Also adds writes to the transaction that stores the object: all or nothing.
// An Expect that no longer holds makes the whole request be tried again,
// admission included.
func (a *Attributes) Also(ops ...store.Op) { a.ops = append(a.ops, ops...) }

// OnRollback registers what gives back a reservation when the write does not
// happen after all: refused later on, dry run, or lost. It runs at most once.
func (a *Attributes) OnRollback(undo func()) { a.undo = append(a.undo, undo) }

// Warn adds a Warning header to the answer.
func (a *Attributes) Warn(text string) { a.warnings = append(a.warnings, text) }

// Annotate adds to the request's line of the audit log.
func (a *Attributes) Annotate(key, value string) {
	if a.annotate != nil {
		a.annotate(key, value)
	}
}

func (a *Attributes) rollback() {
	for i := len(a.undo) - 1; i >= 0; i-- {
		a.undo[i]()
	}
	a.undo = nil
}

// rollbackOn gives back what was reserved if there is an error, or a panic.
func (a *Attributes) rollbackOn(err *error) {
	if p := recover(); p != nil {
		a.rollback()
		panic(p)
	}
	if *err != nil {
		a.rollback()
	}
}

// Admissions asks several in order.
type Admissions []Admission

// Admit implements Admission.
func (as Admissions) Admit(ctx context.Context, a *Attributes) error {
	for _, one := range as {
		if err := one.Admit(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// Validate implements Admission.
func (as Admissions) Validate(ctx context.Context, a *Attributes) error {
	for _, one := range as {
		if err := one.Validate(ctx, a); err != nil {
			return err
		}
	}
	return nil
}
