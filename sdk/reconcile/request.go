package reconcile

import "github.com/berth-dev/berth/sdk/facts"

// Request is a controller's input.
type Request struct {
	Now               int64
	Parent            Object
	Children, Related []*Object
	// Refused says, in words, what the host refused of the last answer about this
	// parent; it is empty if that was stored.
	Refused string
	// Seed is a number made up for this question, where the controller asked for it
	// by sdk.Seed; the same question has the same.
	Seed    uint64
	Symbols *facts.Symbols
}

// ChildrenOf are the children of one kind.
func (r *Request) ChildrenOf(kind string) []*Object { return ofKind(r.Children, kind) }

// RelatedOf are the related objects of one kind.
func (r *Request) RelatedOf(kind string) []*Object { return ofKind(r.Related, kind) }

func ofKind(list []*Object, kind string) (found []*Object) {
	for _, o := range list {
		if o.Kind == kind {
			found = append(found, o)
		}
	}
	return found
}

// Reconciler is a controller. This face is experimental: it is not yet part
// of the ABI's first version.
type Reconciler interface {
	Reconcile(r *Request) (Result, error)
}
