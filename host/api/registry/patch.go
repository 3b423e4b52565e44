package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/berth-dev/berth/host/api/kind"
	"github.com/berth-dev/berth/host/api/wire"
	"github.com/berth-dev/berth/host/store"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxJSONPatchOperations is Kubernetes' own bound.
const maxJSONPatchOperations = 10000

// Patch is a change as a client sends it.
type Patch struct {
	Type types.PatchType
	// Data is JSON; for apply it may be YAML.
	Data []byte
	// Force takes fields from other managers, with apply.
	Force bool
}

// Patch changes an object, or with apply creates it. created tells which.
func (reg *Registry) Patch(ctx context.Context, r *Request, p Patch) (obj store.Object, created bool, err error) {
	if !r.Kind.Can("patch") {
		return nil, false, methodNotSupported(r, "patch")
	}
	if p.Type == types.ApplyPatchType {
		return reg.apply(ctx, r, p)
	}
	if p.Type == types.StrategicMergePatchType && r.Kind.Own() {
		return nil, false, unsupportedPatch("application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml")
	}
	decode, err := reader(p)
	if err != nil {
		return nil, false, err
	}
	obj, err = reg.Modify(ctx, r, func(old store.Object) (store.Object, error) {
		next, err := patched(r, old, decode)
		if err != nil {
			return nil, err
		}
		if err := samePlace(r, next); err != nil {
			return nil, err
		}
		return next, current(r, next, old)
	})
	return obj, false, err
}

// samePlace refuses patches that would move the object.
func samePlace(r *Request, obj store.Object) error {
	if obj.GetName() != r.Name {
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", obj.GetName(), r.Name))
	}
	if r.Kind.Namespaced && obj.GetNamespace() != r.Namespace {
		return apierrors.NewBadRequest(fmt.Sprintf("the namespace of the object (%s) does not match the namespace on the URL (%s)", obj.GetNamespace(), r.Namespace))
	}
	return nil
}

// applier makes a new document out of one, of which shape is an empty object.
type applier func(doc []byte, shape any) ([]byte, error)

func reader(p Patch) (applier, error) {
	switch p.Type {
	case types.JSONPatchType:
		return jsonPatch(p.Data)
	case types.MergePatchType:
		if !json.Valid(p.Data) {
			return nil, apierrors.NewBadRequest("error decoding patch: it is not valid JSON")
		}
		return func(doc []byte, _ any) ([]byte, error) { return unprocessable(jsonpatch.MergePatch(doc, p.Data)) }, nil
	case types.StrategicMergePatchType:
		if !json.Valid(p.Data) {
			return nil, apierrors.NewBadRequest("error decoding patch: it is not valid JSON")
		}
		return func(doc []byte, shape any) ([]byte, error) {
			return strategicError(strategicpatch.StrategicMergePatch(doc, p.Data, shape))
		}, nil
	}
	return nil, unsupportedPatch("application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, application/apply-patch+yaml")
}

func jsonPatch(data []byte) (applier, error) {
	ops, err := jsonpatch.DecodePatch(data)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if len(ops) > maxJSONPatchOperations {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
			"The allowed maximum operations in a JSON patch is %d, got %d", maxJSONPatchOperations, len(ops)))
	}
	return func(doc []byte, _ any) ([]byte, error) { return unprocessable(ops.Apply(doc)) }, nil
}

func unprocessable(out []byte, err error) ([]byte, error) {
	if err != nil {
		return nil, apierrors.NewGenericServerResponse(422, "", noResource, "", err.Error(), 0, false)
	}
	return out, nil
}

func strategicError(out []byte, err error) ([]byte, error) {
	switch {
	case err == nil:
		return out, nil
	case errors.Is(err, mergepatch.ErrBadJSONDoc), errors.Is(err, mergepatch.ErrBadPatchFormatForPrimitiveList),
		errors.Is(err, mergepatch.ErrBadPatchFormatForRetainKeys), errors.Is(err, mergepatch.ErrBadPatchFormatForSetElementOrderList),
		errors.Is(err, mergepatch.ErrUnsupportedStrategicMergePatchFormat):
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return unprocessable(nil, err)
}

// patched is the new state, of the stored version and defaulted.
func patched(r *Request, old store.Object, apply applier) (store.Object, error) {
	before, err := r.Kind.In(r.version(), old)
	if err != nil {
		return nil, err
	}
	doc, err := json.Marshal(before)
	if err != nil {
		return nil, err
	}
	shape, err := r.Kind.NewIn(r.version())
	if err != nil {
		return nil, err
	}
	doc, err = apply(doc, shape)
	if err != nil {
		return nil, err
	}
	next, err := wire.DecodeJSONInto(doc, shape, r.FieldValidation, r.Warn)
	if err != nil {
		return nil, apierrors.NewInvalid(r.Kind.GVK().GroupKind(), r.Name, field.ErrorList{
			field.Invalid(field.NewPath("patch"), string(clip(doc)), err.Error()),
		})
	}
	return settle(r, next)
}

// settle defaults an object of the request's version and gives the stored one.
func settle(r *Request, obj runtime.Object) (store.Object, error) {
	kind.Scheme.Default(obj)
	stored, err := r.Kind.From(obj)
	if err != nil {
		return nil, err
	}
	stored.GetObjectKind().SetGroupVersionKind(noKind)
	return stored, nil
}

// clip keeps a document that goes into an error message short.
func clip(doc []byte) []byte {
	const longest = 1024
	if len(doc) > longest {
		return doc[:longest]
	}
	return doc
}

// apply is server-side apply.
func (reg *Registry) apply(ctx context.Context, r *Request, p Patch) (store.Object, bool, error) {
	if r.Manager == "" {
		return nil, false, apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("PatchOptions").GroupKind(), "", field.ErrorList{
			field.Required(field.NewPath("fieldManager"), "is required for apply patch"),
		})
	}
	want, err := wire.DecodeApply(p.Data, r.FieldValidation, r.Warn)
	if err != nil {
		return nil, false, err
	}
	if want.GetName() == "" {
		want.SetName(r.Name)
	}
	if r.Kind.Namespaced && want.GetNamespace() == "" {
		want.SetNamespace(r.Namespace)
	}
	fm, err := reg.managers.get(r)
	if err != nil {
		return nil, false, err
	}
	merge := func(live store.Object) (store.Object, error) {
		out, err := fm.Apply(live, want.DeepCopy(), r.Manager, p.Force)
		if err != nil {
			return nil, applyError(err)
		}
		return settle(r, out)
	}
	merged := *r
	merged.applied = true
	updated, err := reg.Modify(ctx, &merged, func(old store.Object) (store.Object, error) {
		if err := current(r, want, old); err != nil {
			return nil, err
		}
		next, err := merge(old)
		if err != nil {
			return nil, err
		}
		return next, samePlace(r, next)
	})
	if !apierrors.IsNotFound(err) || r.Subresource != "" || want.GetUID() != "" || !missing(reg, r) {
		return updated, false, err
	}
	fresh, err := merge(r.Kind.New())
	if err != nil {
		return nil, false, err
	}
	made, err := reg.Create(ctx, &merged, fresh)
	return made, err == nil, err
}

// missing tells a not-found of the object from one of something else.
func missing(reg *Registry, r *Request) bool {
	_, ok := reg.store.Get(r.key())
	return !ok
}

func applyError(err error) error {
	if errors.As(err, new(apierrors.APIStatus)) {
		return err
	}
	return apierrors.NewBadRequest(err.Error())
}
