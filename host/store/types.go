package store

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Object is what the store holds. An object that was handed to the store or
// taken from it is never changed again: change a deep copy.
type Object interface {
	metav1.Object
	runtime.Object
}

// Key names an object. Resource is the group-resource in Kubernetes' notation:
// "pods", "replicasets.apps". Namespace is empty for cluster-scoped kinds.
type Key struct{ Resource, Namespace, Name string }

func (k Key) String() string {
	if k.Namespace == "" {
		return k.Resource + " " + k.Name
	}
	return k.Resource + " " + k.Namespace + "/" + k.Name
}

// Codec turns objects into the bytes that the engine keeps and back. Encoded
// bytes carry no resourceVersion: it is the revision under which they lie.
type Codec interface {
	Encode(Object) ([]byte, error)
	Decode(resource string, data []byte) (Object, error)
}

// Sharer is a Codec whose bytes are nearly those in which objects are shown.
type Sharer interface {
	// Share makes what Shared is to give in a format out of an object's bytes
	// and its revision; false where it must be encoded anew.
	Share(format string, data []byte, rev int64) ([]byte, bool)
}

// Interner is a Codec that knows which parts of objects are often alike.
type Interner interface {
	// Intern has an object share such parts with others that are stored; data is
	// its encoding. The object is not seen by anybody yet, but what it refers to
	// may be.
	Intern(obj Object, data []byte)
}

// OpKind says what an Op does.
type OpKind uint8

const (
	Create OpKind = iota
	Update
	Delete
)

// Op is one write of a commit.
type Op struct {
	Kind OpKind
	Key  Key
	// Object is the new state, for Create and Update. The store owns it from
	// here on, and sets its resourceVersion to the revision of this change.
	Object Object
	// Expect is the revision that the object must have now, for Update and
	// Delete; 0 means any.
	Expect int64
	// Requires is an object that must be there and not be deleted or marked as
	// deleted when this is written, for Create: the namespace that it is made in.
	// Other changes of that object are no conflict. No name means none.
	Requires Key
}

// EventType is what happened to an object.
type EventType uint8

const (
	Added EventType = iota
	Modified
	Deleted
)

// Event is one change as a watcher sees it.
type Event struct {
	Type     EventType
	Revision int64
	Key      Key
	// Object is the new state; for Deleted the last one, with its
	// resourceVersion set to the revision of the deletion.
	Object Object
	// Prev is the state before, nil for Added; with it a watcher sees that an
	// object begins or ceases to match its selector.
	Prev Object

	state, prev *entry // of Object and Prev
}

// Shared returns what encode made of ev.Object in this format. The bytes are
// shared by all watchers and lists that show this state of the object, and are
// made once while they are kept; nobody may change them. The format must name
// everything that the bytes depend on beside the object.
func (ev Event) Shared(format string, encode func(Object) ([]byte, error)) ([]byte, error) {
	return ev.state.shared(format, ev.Object, encode)
}

// SharedPrev is Shared for ev.Prev.
func (ev Event) SharedPrev(format string, encode func(Object) ([]byte, error)) ([]byte, error) {
	return ev.prev.shared(format, ev.Prev, encode)
}

// Kinds of errors; each comes wrapped in an *Error that names the key.
var (
	ErrExists    = errors.New("already exists")
	ErrNotFound  = errors.New("not found")
	ErrConflict  = errors.New("the object has been modified")
	ErrCompacted = errors.New("the revision has been compacted")
	ErrFuture    = errors.New("the revision lies in the future")
	ErrTooLarge  = errors.New("too large for one commit")
	ErrClosed    = errors.New("store is closed")
	ErrNoSpace   = errors.New("no room to write")
	ErrCorrupt   = errors.New("the data on disk is damaged")
	// ErrUnavailable passes: try again. Whether the commit was written is known
	// when the store takes commits again.
	ErrUnavailable = errors.New("the store cannot write at present")
)

// Error is a refused operation.
type Error struct {
	Key  Key
	Kind error
	// Have is the object's revision now, with ErrConflict.
	Have int64
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %v", e.Key, e.Kind) }
func (e *Error) Unwrap() error { return e.Kind }
