package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/store"
)

// MaxCreations bounds what one reconciliation may create; the rest comes with
// the next, which the new children bring about.
const MaxCreations = 500

func labelSet(o store.Object) labels.Set { return labels.Set(o.GetLabels()) }

// reconcile asks the guest about one parent and applies its answer.
func (d *Driver) reconcile(ctx context.Context, name types.NamespacedName) (again time.Duration, err error) {
	o, ok := d.Objects.Get(store.Key{Resource: d.parent.Resource, Namespace: name.Namespace, Name: name.Name})
	if !ok {
		d.pace.forget(name)
		return 0, nil
	}
	if err := d.mayRead(ctx, o.GetNamespace()); err != nil {
		return 0, err
	}
	in, err := d.input(o)
	if err != nil {
		return 0, err
	}
	out, err := d.Guest.Reconcile(ctx, d.Now().UnixNano(), &in.parent, in.children, in.related)
	if err != nil {
		return 0, err
	}
	for _, e := range out.Events {
		d.event(ctx, o, e.Type, e.Reason, e.Message)
	}
	return time.Duration(out.RequeueAfterNanos), d.apply(ctx, in, out)
}

// mayRead says whether the guest may be told of this namespace: its
// ServiceAccount must be allowed to list and watch all that the manifest names.
func (d *Driver) mayRead(ctx context.Context, namespace string) error {
	for _, w := range slices.Concat([]watched{d.parent}, d.children, d.related) {
		for _, verb := range []string{"list", "watch"} {
			if err := d.Access.May(ctx, verb, w.Resource, "", namespace, ""); err != nil {
				return err
			}
		}
	}
	return nil
}

// event tells of a parent, if the guest's ServiceAccount may.
func (d *Driver) event(ctx context.Context, parent store.Object, kind, reason, message string) {
	if err := d.Access.May(ctx, "create", "events", "", parent.GetNamespace(), ""); err != nil {
		d.Note(slog.LevelWarn, fmt.Sprintf("event %s is not written: %v", reason, err))
		return
	}
	d.Recorder.Event(parent, kind, reason, message)
}

// input is what a guest is given.
type input struct {
	object            store.Object // the parent
	parent            Object
	children, related []Object
}

// input gathers the parent, its children, and orphans that it selects.
func (d *Driver) input(parent store.Object) (*input, error) {
	in := &input{object: parent}
	var err error
	if in.parent, err = d.parent.object(parent); err != nil {
		return nil, err
	}
	selector := selectorOf(parent)
	for _, w := range d.children {
		found := d.Objects.Indexed(w.Resource, IndexByOwner, string(parent.GetUID()))
		if parent.GetDeletionTimestamp() == nil {
			for _, o := range d.Objects.Indexed(w.Resource, IndexOrphans, parent.GetNamespace()) {
				if o.GetDeletionTimestamp() == nil && selector.Matches(labelSet(o)) {
					found = append(found, o)
				}
			}
		}
		if in.children, err = w.objects(in.children, found); err != nil {
			return nil, err
		}
	}
	for _, w := range d.related {
		list, err := d.Objects.List(w.Resource, parent.GetNamespace(), store.ListOptions{
			Match: func(o store.Object) bool { return selector.Matches(labelSet(o)) },
		})
		if err != nil {
			return nil, err
		}
		if in.related, err = w.objects(in.related, list.Items); err != nil {
			return nil, err
		}
	}
	return in, nil
}

func (w *watched) object(o store.Object) (Object, error) {
	values, err := w.fields.of(o)
	if err != nil {
		return Object{}, fmt.Errorf("%s %s: %w", w.Resource, o.GetName(), err)
	}
	return Object{Kind: w.kind, Object: o, Fields: values}, nil
}

func (w *watched) objects(to []Object, found []store.Object) ([]Object, error) {
	for _, o := range found {
		one, err := w.object(o)
		if err != nil {
			return nil, err
		}
		to = append(to, one)
	}
	return to, nil
}

// apply does what the guest wants, in an order that never leaves a child
// without the parent knowing: adopt, release, delete, create, status.
func (d *Driver) apply(ctx context.Context, in *input, out *abi.ReconcileResult) error {
	parent := in.object
	var errs []error
	for _, uid := range out.Adopt {
		errs = append(errs, d.own(ctx, in, uid, true))
	}
	for _, uid := range out.Release {
		errs = append(errs, d.own(ctx, in, uid, false))
	}
	for _, uid := range out.Delete {
		errs = append(errs, d.remove(ctx, in, uid))
	}
	if parent.GetDeletionTimestamp() == nil {
		errs = append(errs, d.create(ctx, parent, out.Create))
	}
	if len(out.Status) > 0 {
		errs = append(errs, d.status(ctx, parent, out.Status))
	}
	return errors.Join(errs...)
}

// child finds one of the objects that the guest was given.
func (d *Driver) child(in *input, uid string) (*watched, store.Object, error) {
	for i := range in.children {
		c := &in.children[i]
		if string(c.Object.GetUID()) != uid {
			continue
		}
		w := slices.IndexFunc(d.children, func(w watched) bool {
			return w.kind.Kind == c.Kind.Kind && w.kind.APIVersion == c.Kind.APIVersion
		})
		return &d.children[w], c.Object.(store.Object), nil
	}
	return nil, nil, fmt.Errorf("the guest names a child %s that it was not given", uid)
}

func controlledBy(o, parent store.Object) bool {
	owner := metav1.GetControllerOf(o)
	return owner != nil && owner.UID == parent.GetUID()
}

// own takes an orphan in, or lets a child go.
func (d *Driver) own(ctx context.Context, in *input, uid string, adopt bool) error {
	w, child, err := d.child(in, uid)
	if err != nil {
		return err
	}
	if err := d.Access.May(ctx, "patch", w.Resource, "", child.GetNamespace(), child.GetName()); err != nil {
		return err
	}
	parent := in.object
	_, err = d.Objects.Update(ctx, keyOf(w, child), func(o store.Object) (store.Object, error) {
		if string(o.GetUID()) != uid {
			return o, nil
		}
		owned := controlledBy(o, parent)
		if owned == adopt || adopt && metav1.GetControllerOf(o) != nil {
			return o, nil
		}
		next := o.DeepCopyObject().(store.Object)
		if adopt {
			next.SetOwnerReferences(append(next.GetOwnerReferences(), *d.reference(parent)))
			return next, nil
		}
		next.SetOwnerReferences(slices.DeleteFunc(next.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == parent.GetUID() }))
		return next, nil
	})
	return ignoreGone(err)
}

func keyOf(w *watched, o store.Object) store.Key {
	return store.Key{Resource: w.Resource, Namespace: o.GetNamespace(), Name: o.GetName()}
}

func ignoreGone(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

func (d *Driver) reference(parent store.Object) *metav1.OwnerReference {
	return metav1.NewControllerRef(parent, schema.FromAPIVersionAndKind(d.parent.kind.APIVersion, d.parent.kind.Kind))
}

func (d *Driver) remove(ctx context.Context, in *input, uid string) error {
	w, child, err := d.child(in, uid)
	if err != nil {
		return err
	}
	if !controlledBy(child, in.object) {
		return fmt.Errorf("the guest wants %s %s deleted, which its parent does not own", w.Resource, child.GetName())
	}
	if child.GetDeletionTimestamp() != nil {
		return nil
	}
	if err = d.Access.May(ctx, "delete", w.Resource, "", child.GetNamespace(), child.GetName()); err == nil {
		err = d.Writer.Delete(ctx, w.Resource, child)
	}
	if err != nil {
		d.event(ctx, in.object, "Warning", "FailedDelete", fmt.Sprintf("Error deleting: %v", err))
		return err
	}
	d.event(ctx, in.object, "Normal", "SuccessfulDelete", fmt.Sprintf("Deleted %s: %s", singular(w), child.GetName()))
	return nil
}

func (d *Driver) create(ctx context.Context, parent store.Object, wanted []abi.Creation) error {
	left := int64(MaxCreations)
	for _, c := range wanted {
		w, child, err := d.decode(parent, c.Object)
		if err != nil {
			return err
		}
		n := min(c.Count, left)
		left -= max(n, 0)
		for range n {
			fresh := child.DeepCopyObject().(store.Object)
			err := d.Access.May(ctx, "create", w.Resource, "", fresh.GetNamespace(), "")
			if err == nil {
				err = d.Writer.Create(ctx, w.Resource, fresh)
			}
			if err != nil {
				d.event(ctx, parent, "Warning", "FailedCreate", fmt.Sprintf("Error creating: %v", err))
				return err
			}
			d.event(ctx, parent, "Normal", "SuccessfulCreate", fmt.Sprintf("Created %s: %s", singular(w), fresh.GetName()))
		}
	}
	return nil
}

// singular names a kind in an event as Kubernetes does: pod, not pods.
func singular(w *watched) string {
	name := []byte(w.kind.Kind)
	name[0] |= 0x20
	return string(name)
}

// decode turns a wanted child into an object that the parent owns.
func (d *Driver) decode(parent store.Object, data json.RawMessage) (*watched, store.Object, error) {
	var meta metav1.TypeMeta
	if err := json.Unmarshal(data, &meta); err != nil {
		return nil, nil, fmt.Errorf("the guest wants a child that is no object: %w", err)
	}
	i := slices.IndexFunc(d.children, func(w watched) bool {
		return w.kind.Kind == meta.Kind && w.kind.APIVersion == meta.APIVersion
	})
	if i < 0 {
		return nil, nil, fmt.Errorf("the guest wants a %s %s, which its manifest does not declare", meta.APIVersion, meta.Kind)
	}
	w := &d.children[i]
	child := w.New()
	if err := json.Unmarshal(data, child); err != nil {
		return nil, nil, fmt.Errorf("the guest wants a %s that does not decode: %w", meta.Kind, err)
	}
	child.SetNamespace(parent.GetNamespace())
	if child.GetName() == "" && child.GetGenerateName() == "" {
		child.SetGenerateName(parent.GetName() + "-")
	}
	child.SetOwnerReferences([]metav1.OwnerReference{*d.reference(parent)})
	return w, child, nil
}

// status replaces the parent's status.
func (d *Driver) status(ctx context.Context, parent store.Object, data json.RawMessage) error {
	if err := d.Access.May(ctx, "update", d.parent.Resource, "status", parent.GetNamespace(), parent.GetName()); err != nil {
		return err
	}
	key := store.Key{Resource: d.parent.Resource, Namespace: parent.GetNamespace(), Name: parent.GetName()}
	_, err := d.Objects.Update(ctx, key, func(o store.Object) (store.Object, error) {
		if o.GetUID() != parent.GetUID() {
			return o, nil
		}
		return withStatus(o, data)
	})
	return ignoreGone(err)
}

func withStatus(o store.Object, data json.RawMessage) (store.Object, error) {
	next := o.DeepCopyObject().(store.Object)
	field := reflect.ValueOf(next).Elem().FieldByName("Status")
	if !field.IsValid() {
		return nil, fmt.Errorf("%T has no status", o)
	}
	fresh := reflect.New(field.Type())
	if err := json.Unmarshal(data, fresh.Interface()); err != nil {
		return nil, fmt.Errorf("the guest's status does not decode: %w", err)
	}
	if equality.Semantic.DeepEqual(field.Interface(), fresh.Elem().Interface()) {
		return o, nil // nothing to write, and nobody to wake by it
	}
	field.Set(fresh.Elem())
	return next, nil
}
