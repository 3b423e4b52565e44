package controller

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/store"
)

// MaxCreations bounds what one commit creates; the rest comes with the next
// question.
const MaxCreations = 500

// plan is an answer on its way into the store: one transaction, and what to tell
// users when it is in.
type plan struct {
	d *Driver
	*gathered
	// out is what it does of the answer.
	out    *abi.ReconcileResult
	tx     Transaction
	events []note
	// refused is what admission or RBAC refused of the creations.
	refused string
	// unfinished: there was more to do than one commit takes.
	unfinished bool
	empty      bool
	// most is how many records a part of an answer writes; 0 is the whole answer.
	most int
	// objects: it writes more than the parent's status.
	objects bool
	stored  []store.Object
	records int
	// gone is what it takes away, by UID: what it deletes may stay for a while.
	gone map[string]bool
}

type note struct {
	about                 store.Object
	kind, reason, message string
}

// takesAway finds what will be gone: a deletion and the last finalizer may do it.
func (p *plan) takesAway(out *abi.ReconcileResult) {
	p.gone = map[string]bool{}
	look := func(uid string) {
		if _, left := p.tx.Get(p.byUID[uid].key()); !left {
			p.gone[uid] = true
		}
	}
	for i := range out.Delete {
		look(out.Delete[i].UID)
	}
	for i := range out.Patch {
		look(out.Patch[i].UID)
	}
}

func (p *plan) add(ctx context.Context, out *abi.ReconcileResult) error {
	if err := each(p, out.Adopt, func(uid *string) error { return p.own(ctx, *uid, true) }); err != nil {
		return err
	}
	if err := each(p, out.Release, func(uid *string) error { return p.own(ctx, *uid, false) }); err != nil {
		return err
	}
	if err := each(p, out.Patch, func(want *abi.Patch) error { return p.patch(ctx, want) }); err != nil {
		return err
	}
	if err := each(p, out.Delete, func(want *abi.Deletion) error { return p.remove(ctx, want) }); err != nil {
		return err
	}
	if p.parent.GetDeletionTimestamp() == nil {
		if err := p.create(ctx, out.Create); err != nil {
			return err
		}
	}
	p.objects = !p.empty
	if len(out.Status) > 0 {
		return p.status(ctx, out.Status)
	}
	return nil
}

// find is an object that the guest was given.
func (p *plan) find(uid string) (named, error) {
	if one, ok := p.byUID[uid]; ok {
		return one, nil
	}
	return named{}, fmt.Errorf("the guest names %.64q, which it was not given", uid)
}

// modify changes an object that is still as the guest was told.
func (p *plan) modify(ctx context.Context, verb, subresource string, one named, change func(store.Object) (store.Object, error)) error {
	o := one.o
	err := p.d.Access.May(ctx, verb, one.w.Resource, subresource, o.GetNamespace(), o.GetName())
	if err != nil && verb == "patch" && p.d.Access.May(ctx, "update", one.w.Resource, subresource, o.GetNamespace(), o.GetName()) == nil {
		err = nil // who may replace an object may change it
	}
	if err != nil {
		return err
	}
	if !p.fresh(one) {
		return errStale
	}
	err = p.tx.Modify(ctx, one.w.Resource, subresource, o.GetNamespace(), o.GetName(), func(have store.Object) (store.Object, error) {
		next, err := change(have)
		if err == nil && next != have {
			p.empty = false
		}
		return next, err
	})
	return staleIfGone(err)
}

// fresh tells whether an object is still as the guest was told: in the store, or
// changed since by this answer alone.
func (p *plan) fresh(one named) bool {
	have, ok := p.d.Objects.Get(one.key())
	return ok && have.GetUID() == one.o.GetUID() && have.GetResourceVersion() == one.o.GetResourceVersion()
}

func staleIfGone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || errors.Is(err, store.ErrConflict) {
		return errStale
	}
	return err
}

// own takes an orphan in, or lets a child go.
func (p *plan) own(ctx context.Context, uid string, adopt bool) error {
	one, err := p.find(uid)
	if err != nil {
		return err
	}
	if !one.w.child {
		return fmt.Errorf("the guest wants to own %s %s, which is no child", one.w.Resource, one.o.GetName())
	}
	return p.modify(ctx, "patch", "", one, func(o store.Object) (store.Object, error) {
		owned := p.owns(o)
		if owned == adopt || adopt && metav1.GetControllerOfNoCopy(o) != nil {
			return o, nil
		}
		next := o.DeepCopyObject().(store.Object)
		if adopt {
			next.SetOwnerReferences(append(next.GetOwnerReferences(), *p.d.reference(p.parent)))
			return next, nil
		}
		next.SetOwnerReferences(slices.DeleteFunc(next.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == p.parent.GetUID() }))
		return next, nil
	})
}

func (d *Driver) reference(parent store.Object) *metav1.OwnerReference {
	return metav1.NewControllerRef(parent, schema.FromAPIVersionAndKind(d.parent.kind.APIVersion, d.parent.kind.Kind))
}

// patch applies a merge patch.
func (p *plan) patch(ctx context.Context, want *abi.Patch) error {
	one, err := p.find(want.UID)
	if err != nil {
		return err
	}
	if !one.w.kind.May("patch") {
		return fmt.Errorf("the guest wants to patch %s, which its manifest does not say: writes needs \"patch\"", one.w.Resource)
	}
	finalizers, alone := onlyFinalizers(want.Patch)
	return p.modify(ctx, "patch", want.Subresource, one, func(o store.Object) (store.Object, error) {
		if want.Subresource == "scale" {
			return rescaled(o, want.Patch)
		}
		if alone {
			return withFinalizers(o, finalizers), nil
		}
		data, err := json.Marshal(o)
		if err != nil {
			return nil, err
		}
		if data, err = jsonpatch.MergePatch(data, want.Patch); err != nil {
			return nil, fmt.Errorf("the guest's patch of %s %s: %w", one.w.Resource, o.GetName(), err)
		}
		next := one.w.New()
		if err := json.Unmarshal(data, next); err != nil {
			return nil, fmt.Errorf("the guest's patch of %s %s does not decode: %w", one.w.Resource, o.GetName(), err)
		}
		if equality.Semantic.DeepEqual(o, next) {
			return o, nil
		}
		return next, nil
	})
}

// onlyFinalizers reads a merge patch that is about finalizers alone, as one of
// thousands of pods often is: these are not worth turning each into JSON.
func onlyFinalizers(patch []byte) (list []string, ok bool) {
	var top, meta map[string]json.RawMessage
	if json.Unmarshal(patch, &top) != nil || len(top) != 1 || json.Unmarshal(top["metadata"], &meta) != nil || len(meta) != 1 {
		return nil, false
	}
	value, ok := meta["finalizers"]
	ok = ok && json.Unmarshal(value, &list) == nil
	return list, ok
}

func withFinalizers(o store.Object, list []string) store.Object {
	if slices.Equal(o.GetFinalizers(), list) {
		return o
	}
	next := o.DeepCopyObject().(store.Object)
	next.SetFinalizers(list)
	return next
}

// rescaled has another number of replicas: who may write an object's scale may
// change no more of it.
func rescaled(o store.Object, patch json.RawMessage) (store.Object, error) {
	var scale struct {
		Spec struct {
			Replicas *int32 `json:"replicas"`
		} `json:"spec"`
	}
	decoder := json.NewDecoder(bytes.NewReader(patch))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&scale); err != nil || scale.Spec.Replicas == nil {
		return nil, fmt.Errorf("the guest scales %s by %.64q, want {\"spec\":{\"replicas\":2}}", o.GetName(), patch)
	}
	next := o.DeepCopyObject().(store.Object)
	switch replicas := specField(next, "Replicas"); {
	case replicas.IsValid() && replicas.Type() == reflect.TypeFor[*int32]():
		replicas.Set(reflect.ValueOf(scale.Spec.Replicas))
	case replicas.IsValid() && replicas.Kind() == reflect.Int32:
		replicas.SetInt(int64(*scale.Spec.Replicas))
	default:
		return nil, fmt.Errorf("the guest wants to scale %s, and a %T has no replicas", o.GetName(), o)
	}
	if equality.Semantic.DeepEqual(o, next) {
		return o, nil
	}
	return next, nil
}

func (p *plan) remove(ctx context.Context, want *abi.Deletion) error {
	one, err := p.find(want.UID)
	if err != nil {
		return err
	}
	if !one.w.kind.May("delete") {
		return fmt.Errorf("the guest wants to delete %s, which its manifest does not say: writes needs \"delete\"", one.w.Resource)
	}
	if one.w.child && one.w.kind.By != abi.ByName && !p.owns(one.o) {
		return fmt.Errorf("the guest wants %s %s deleted, which its parent does not own", one.w.Resource, one.o.GetName())
	}
	if one.o.GetDeletionTimestamp() != nil && want.GracePeriodSeconds == nil {
		return nil
	}
	if err := p.d.Access.May(ctx, "delete", one.w.Resource, "", one.o.GetNamespace(), one.o.GetName()); err != nil {
		p.tell(p.parent, "Warning", "FailedDelete", fmt.Sprintf("Error deleting: %v", err))
		return err
	}
	if gone, err := p.goes(one, want); gone || err != nil {
		return err
	}
	uid := one.o.GetUID()
	policy := metav1.DeletePropagationBackground
	if want.PropagationPolicy != "" {
		policy = metav1.DeletionPropagation(want.PropagationPolicy)
	}
	opts := &metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &policy, GracePeriodSeconds: want.GracePeriodSeconds,
	}
	if err := p.tx.Delete(ctx, one.w.Resource, one.o, opts); err != nil {
		return staleIfGone(err)
	}
	p.empty = false
	switch {
	case want.Quiet:
	case want.Success != "":
		p.tell(p.parent, "Normal", "SuccessfulDelete", want.Success)
	default:
		p.tell(p.parent, "Normal", "SuccessfulDelete", fmt.Sprintf("Deleted %s: %s", singular(one.w), one.o.GetName()))
	}
	return nil
}

// goes tells whether an object is gone or going already, or must not go, since the
// guest knows it otherwise. A child goes whatever became of it meanwhile, as for
// Kubernetes' controllers: of hundreds one would always have changed.
func (p *plan) goes(one named, want *abi.Deletion) (gone bool, err error) {
	if !one.w.child || one.w.kind.By == abi.ByName {
		if !p.fresh(one) {
			return false, errStale
		}
		return false, nil
	}
	have, there := p.d.Objects.Get(one.key())
	switch {
	case !there || have.GetUID() != one.o.GetUID():
		return true, nil
	case !p.owns(have):
		return false, errStale
	}
	return have.GetDeletionTimestamp() != nil && want.GracePeriodSeconds == nil, nil
}

func (p *plan) tell(about store.Object, kind, reason, message string) {
	p.events = append(p.events, note{about, kind, reason, message})
}

func (p *plan) create(ctx context.Context, wanted []abi.Creation) error {
	left := int64(MaxCreations)
	for i := range wanted {
		c := &wanted[i]
		w, object, err := p.stamp(c)
		if err != nil {
			return err
		}
		n := min(c.Count, left)
		p.unfinished = p.unfinished || n < c.Count
		left -= n
		for k := range n {
			if p.full() {
				return nil
			}
			one := object.DeepCopyObject().(store.Object)
			if len(c.Each) > 0 {
				if err := merge(one, c.Each[k]); err != nil {
					return fmt.Errorf("the guest wants a %s that does not decode: %w", w.kind.Kind, err)
				}
			}
			if p.stillThere(w, one) {
				p.unfinished = true
				return nil
			}
			if err := p.createOne(ctx, w, one, c); err != nil {
				return nil // what follows may need it
			}
		}
	}
	return nil
}

// stillThere tells of a creation whose name goes by the same answer: it is for the
// next one, since whoever watches is to see the old object's end.
func (p *plan) stillThere(w *kindWatch, o store.Object) bool {
	key := w.key(o.GetNamespace(), o.GetName())
	if _, left := p.tx.Get(key); left || o.GetName() == "" {
		return false
	}
	_, there := p.d.Objects.Get(key)
	return there
}

// createOne adds one creation; an error is what was refused, and is told
// already.
func (p *plan) createOne(ctx context.Context, w *kindWatch, o store.Object, c *abi.Creation) error {
	generated := o.GetName() == ""
	if !generated {
		if have, ok := p.tx.Get(w.key(o.GetNamespace(), o.GetName())); ok && (c.Unowned || p.owns(have)) {
			return nil
		}
	}
	err := p.d.Access.May(ctx, "create", w.Resource, "", o.GetNamespace(), "")
	if err == nil {
		o, err = p.tx.Create(ctx, w.Resource, o)
	}
	switch {
	case err == nil:
		p.empty = false
		switch {
		case c.Success != "":
			p.tell(p.parent, "Normal", "SuccessfulCreate", c.Success)
		case generated && !c.Quiet:
			p.tell(p.parent, "Normal", "SuccessfulCreate", fmt.Sprintf("Created %s: %s", singular(w), o.GetName()))
		}
	case apierrors.HasStatusCause(err, v1.NamespaceTerminatingCause):
	default:
		p.refused = "Error creating: " + err.Error()
		message := p.refused
		if c.Failure != "" {
			message = c.Failure + err.Error()
		}
		p.tell(p.parent, "Warning", "FailedCreate", message)
	}
	return err
}

// singular names a kind in an event as Kubernetes does: pod, not pods.
func singular(w *kindWatch) string {
	name := []byte(w.kind.Kind)
	name[0] |= 0x20
	return string(name)
}

// creatable finds the kind of a creation.
func (d *Driver) creatable(meta metav1.TypeMeta) (*kindWatch, error) {
	for _, list := range [][]kindWatch{d.children, d.related} {
		for i := range list {
			k := &list[i].kind
			if k.Kind != meta.Kind || k.APIVersion != meta.APIVersion {
				continue
			}
			if !k.May("create") {
				return nil, fmt.Errorf("the guest wants to create a %s, which its manifest does not say: writes needs \"create\"", k.Kind)
			}
			return &list[i], nil
		}
	}
	return nil, fmt.Errorf("the guest wants a %s %s, which its manifest does not declare", meta.APIVersion, meta.Kind)
}

// stamp makes the object of a creation.
func (p *plan) stamp(c *abi.Creation) (*kindWatch, store.Object, error) {
	var meta metav1.TypeMeta
	if err := json.Unmarshal(c.Object, &meta); err != nil {
		return nil, nil, fmt.Errorf("the guest wants an object that is none: %w", err)
	}
	w, err := p.d.creatable(meta)
	if err != nil {
		return nil, nil, err
	}
	o := w.New()
	if c.From != "" {
		if err = fromTemplate(o, p.parent, c.From); err == nil {
			err = merge(o, c.Object)
		}
	} else {
		err = json.Unmarshal(c.Object, o)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("the guest wants a %s that does not decode: %w", meta.Kind, err)
	}
	if !w.Cluster {
		o.SetNamespace(p.parent.GetNamespace())
	} else if !c.Unowned && !p.d.parent.Cluster {
		return nil, nil, fmt.Errorf("the guest wants a %s that its parent owns: nothing in a namespace can own what is in none", meta.Kind)
	}
	if o.GetName() == "" && o.GetGenerateName() == "" {
		o.SetGenerateName(p.parent.GetName() + "-")
	}
	if !c.Unowned {
		o.SetOwnerReferences([]metav1.OwnerReference{*p.d.reference(p.parent)})
	}
	return w, o, nil
}

// fromTemplate fills a new object from a template that the parent holds: labels,
// annotations and finalizers, and the spec.
func fromTemplate(o, parent store.Object, path string) error {
	field := at(parent, path)
	for field.IsValid() && field.Kind() == reflect.Pointer {
		field = field.Elem()
	}
	if !field.IsValid() || field.Kind() != reflect.Struct {
		return fmt.Errorf("the parent has no template at %q", path)
	}
	head, spec, to := field.FieldByName("ObjectMeta"), field.FieldByName("Spec"), reflect.ValueOf(o).Elem().FieldByName("Spec")
	if !head.IsValid() || !spec.IsValid() || !to.IsValid() || spec.Type() != to.Type() {
		return fmt.Errorf("what the parent has at %q is no template of it", path)
	}
	meta, ok := head.Interface().(metav1.ObjectMeta)
	if !ok {
		return fmt.Errorf("what the parent has at %q has no metadata", path)
	}
	to.Set(spec)
	o.SetLabels(meta.Labels)
	o.SetAnnotations(meta.Annotations)
	o.SetFinalizers(meta.Finalizers)
	// The template is shared; what follows works on a copy.
	own := o.DeepCopyObject()
	reflect.ValueOf(o).Elem().Set(reflect.ValueOf(own).Elem())
	return nil
}

// merge applies a merge patch to a new object.
func merge(o store.Object, patch json.RawMessage) error {
	if plain(patch) {
		return json.Unmarshal(patch, o)
	}
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(patch, &parts); err != nil {
		return err
	}
	delete(parts, "apiVersion")
	delete(parts, "kind")
	if len(parts) == 0 {
		return nil
	}
	data, err := json.Marshal(o)
	if err != nil {
		return err
	}
	rest, err := json.Marshal(parts)
	if err != nil {
		return err
	}
	if data, err = jsonpatch.MergePatch(data, rest); err != nil {
		return err
	}
	fresh := reflect.New(reflect.TypeOf(o).Elem())
	if err := json.Unmarshal(data, fresh.Interface()); err != nil {
		return err
	}
	reflect.ValueOf(o).Elem().Set(fresh.Elem())
	return nil
}

// plain tells of a merge patch that it takes nothing away, has no lists and says
// nothing of the kind: it is then what decoding it over the object does.
func plain(patch []byte) bool {
	return !bytes.Contains(patch, []byte("null")) && !bytes.ContainsRune(patch, '[') && !bytes.Contains(patch, []byte(`"kind"`))
}

// status replaces the parent's status.
func (p *plan) status(ctx context.Context, data json.RawMessage) error {
	one := named{&p.d.parent, p.parent}
	return p.modify(ctx, "update", "status", one, func(o store.Object) (store.Object, error) { return withStatus(o, data) })
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
