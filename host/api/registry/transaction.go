package registry

import (
	"context"
	"errors"
	"fmt"

	"github.com/berth-dev/berth/host/store"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// prepared is a write that was admitted and validated, and not yet stored.
type prepared struct {
	op store.Op
	// object is the new state, for a deletion the last one.
	object store.Object
	a      *Attributes
}

// commit stores one prepared write, unless it is only tried.
func (reg *Registry) commit(ctx context.Context, r *Request, made *prepared) (_ store.Object, err error) {
	if r.DryRun {
		made.a.rollback()
		if _, there := reg.store.Get(made.op.Key); there && made.op.Kind == store.Create {
			return nil, &store.Error{Key: made.op.Key, Kind: store.ErrExists}
		}
		return made.object, nil
	}
	defer made.a.rollbackOn(&err)
	_, objs, err := reg.store.Commit(ctx, append([]store.Op{made.op}, made.a.ops...)...)
	if err != nil {
		return nil, err
	}
	return objs[0], nil
}

// Transaction gathers writes that are stored together or not at all. Each is
// admitted, prepared and validated when it is added; one that is refused then
// leaves no trace. A later write to the same object goes on from the earlier
// one. Either Commit or Rollback ends it.
type Transaction struct {
	reg    *Registry
	writes []*prepared
	at     map[store.Key]int
}

// Begin starts a Transaction.
func (reg *Registry) Begin() *Transaction {
	return &Transaction{reg: reg, at: map[store.Key]int{}}
}

// Len is how many records the transaction writes.
func (t *Transaction) Len() (n int) {
	for _, w := range t.writes {
		n += 1 + len(w.a.ops)
	}
	return n
}

// Get is an object as the transaction leaves it.
func (t *Transaction) Get(k store.Key) (store.Object, bool) {
	if i, ok := t.at[k]; ok {
		w := t.writes[i]
		return w.object, w.op.Kind != store.Delete
	}
	return t.reg.store.Get(k)
}

// Create adds a new object, which it takes over and changes.
func (t *Transaction) Create(ctx context.Context, r *Request, obj store.Object) (store.Object, error) {
	if r.Kind.Strategy == nil || !r.Kind.Can("create") {
		return nil, methodNotSupported(r, "create")
	}
	ctx = r.context(ctx)
	if err := t.reg.readyToCreate(ctx, r, obj); err != nil {
		return nil, err
	}
	if err := t.reg.namespaceOpen(r); err != nil {
		return nil, err
	}
	generate := obj.GetName() == "" && obj.GetGenerateName() != ""
	for generate && t.taken(r, obj) {
		obj.SetName(r.Kind.Strategy.GenerateName(obj.GetGenerateName()))
	}
	one := r.named(r.Namespace, obj.GetName())
	if _, ok := t.Get(one.key()); ok {
		return nil, apierrors.NewAlreadyExists(r.Kind.GroupResource(), obj.GetName())
	}
	made, err := t.reg.prepareCreate(ctx, r, obj)
	if err != nil {
		return nil, one.status(err)
	}
	return made.object, one.status(t.add(made))
}

func (t *Transaction) taken(r *Request, obj store.Object) bool {
	if obj.GetName() == "" {
		return true
	}
	_, ok := t.Get(r.named(r.Namespace, obj.GetName()).key())
	return ok
}

// Modify adds a change of an object that exists, or of the part of it that the
// subresource is about.
func (t *Transaction) Modify(ctx context.Context, r *Request, change Change) (store.Object, error) {
	strategy, err := r.updateStrategy()
	if err != nil {
		return nil, err
	}
	ctx = r.context(ctx)
	old, ok := t.Get(r.key())
	if !ok {
		return nil, apierrors.NewNotFound(r.Kind.GroupResource(), r.Name)
	}
	obj, err := change(old)
	if err != nil || obj == old {
		return old, r.status(err)
	}
	if err := t.reg.trackUpdate(r, old, obj); err != nil {
		return nil, r.status(err)
	}
	made, err := t.reg.prepareModify(ctx, r, strategy, old, obj)
	if err != nil {
		return nil, r.status(err)
	}
	return made.object, r.status(t.add(made))
}

// Delete adds the deletion of an object, or its mark if something holds it.
func (t *Transaction) Delete(ctx context.Context, r *Request, opts *metav1.DeleteOptions) error {
	if r.Kind.Strategy == nil || !r.Kind.Can("delete") {
		return methodNotSupported(r, "delete")
	}
	old, ok := t.Get(r.key())
	if !ok {
		return apierrors.NewNotFound(r.Kind.GroupResource(), r.Name)
	}
	if opts == nil {
		opts = &metav1.DeleteOptions{}
	}
	made, err := t.reg.prepareRemove(r.context(ctx), r, old, opts.DeepCopy(), nil)
	if err != nil {
		return r.status(err)
	}
	return r.status(t.add(made))
}

// add puts a write in, in the place of an earlier one to the same object.
func (t *Transaction) add(made *prepared) error {
	i, again := t.at[made.op.Key]
	if !again {
		t.at[made.op.Key] = len(t.writes)
		t.writes = append(t.writes, made)
		return nil
	}
	before := t.writes[i]
	if before.op.Kind != store.Update {
		made.a.rollback()
		return fmt.Errorf("%s: %w", made.op.Key, errOnce)
	}
	made.op.Expect = before.op.Expect
	made.a.ops = append(before.a.ops, made.a.ops...)
	made.a.undo = append(before.a.undo, made.a.undo...)
	t.writes[i] = made
	return nil
}

var errOnce = errors.New("one transaction cannot create an object and change it, nor create one in the place of one that it deletes: send it as it is to be, or in a transaction of its own")

// Commit stores all writes. ErrConflict or ErrExists of host/store says that
// another writer came between, and that nothing was written. The objects are as
// they are stored.
func (t *Transaction) Commit(ctx context.Context) ([]store.Object, error) {
	ops := make([]store.Op, 0, len(t.writes))
	for _, w := range t.writes {
		ops = append(ops, w.op)
		ops = append(ops, w.a.ops...)
	}
	_, stored, err := t.reg.store.Commit(ctx, ops...)
	if err != nil {
		t.Rollback()
	}
	return stored, err
}

// Rollback gives back what was reserved.
func (t *Transaction) Rollback() {
	for _, w := range t.writes {
		w.a.rollback()
	}
	t.writes, t.at = nil, map[store.Key]int{}
}
