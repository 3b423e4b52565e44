package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"unicode/utf8"

	"github.com/berth-dev/berth/host/api/kind"
	"github.com/berth-dev/berth/host/api/wire"
	"github.com/berth-dev/berth/host/store"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
)

// maxJSONPatchOperations is Kubernetes' own bound.
const maxJSONPatchOperations = 10000

// A JSON patch may copy what it copied before: its size is bounded, as
// Kubernetes does.
func init() { jsonpatch.AccumulatedCopySizeLimit = 3 << 20 }

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
		return nil, false, UnsupportedPatch(r.Kind.PatchTypes())
	}
	change, err := readPatch(p, r.FieldValidation)
	if err != nil {
		return nil, false, err
	}
	obj, err = reg.Modify(ctx, r, func(old store.Object) (store.Object, error) {
		next, err := patched(r, old, change)
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

// change is a patch that was read.
type change struct {
	// apply makes a new document out of one, of which shape is an empty object.
	apply func(doc []byte, shape any) ([]byte, error)
	// strict is what is wrong with the patch for those who want to know.
	strict []error
	// fields are those of a strategic patch; in errors it is shown itself,
	// of others what came of them.
	fields map[string]any
}

func readPatch(p Patch, validation string) (*change, error) {
	err := wire.CheckDepth(p.Data)
	if !utf8.Valid(p.Data) {
		err = errors.New("it is not valid UTF-8")
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
	}
	switch p.Type {
	case types.JSONPatchType:
		return readJSONPatch(p.Data, validation)
	case types.MergePatchType:
		fields, strict, err := readFields(p.Data, validation)
		if err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
		}
		return &change{strict: strict, apply: func(doc []byte, _ any) ([]byte, error) { return mergePatch(doc, fields) }}, nil
	case types.StrategicMergePatchType:
		fields, strict, err := readFields(p.Data, validation)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return &change{strict: strict, fields: fields, apply: func(doc []byte, shape any) ([]byte, error) { return strategicMerge(doc, fields, shape) }}, nil
	}
	return nil, UnsupportedPatch(kind.AllPatchTypes)
}

// readFields reads a patch that is an object, and finds keys given twice.
func readFields(data []byte, validation string) (fields map[string]any, strict []error, err error) {
	fields = map[string]any{}
	if validation == metav1.FieldValidationIgnore {
		return fields, nil, kjson.UnmarshalCaseSensitivePreserveInts(data, &fields)
	}
	strict, err = kjson.UnmarshalStrict(data, &fields)
	return fields, strict, err
}

// mergePatch is RFC 7386, in time that grows with the patch alone: the library
// for it reads what is nested again at each level.
func mergePatch(doc []byte, patch map[string]any) ([]byte, error) {
	into := map[string]any{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(doc, &into); err != nil {
		return nil, err
	}
	return json.Marshal(merge(into, patch))
}

func merge(into, patch map[string]any) map[string]any {
	for key, value := range patch {
		switch value := value.(type) {
		case nil:
			delete(into, key)
		case map[string]any:
			had, ok := into[key].(map[string]any)
			if !ok {
				had = map[string]any{}
			}
			into[key] = merge(had, value)
		default:
			into[key] = value
		}
	}
	return into
}

// maxCompared bounds the work on lists that are merged by key, where each
// element of the patch is looked for among all others.
const maxCompared = 1 << 24

func strategicMerge(doc []byte, patch map[string]any, shape any) ([]byte, error) {
	into := map[string]any{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(doc, &into); err != nil {
		return nil, err
	}
	if n := elements(patch); n*(n+elements(into)) > maxCompared {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
			"a strategic merge patch of %d list elements takes too long; send it as another type of patch", n))
	}
	out, err := strategicpatch.StrategicMergeMapPatch(into, runtime.DeepCopyJSON(patch), shape)
	if err != nil {
		return strategicError(nil, err)
	}
	return json.Marshal(out)
}

// elements counts those of all lists in a document.
func elements(doc any) int {
	n := 0
	switch doc := doc.(type) {
	case map[string]any:
		for _, value := range doc {
			n += elements(value)
		}
	case []any:
		n = len(doc)
		for _, value := range doc {
			n += elements(value)
		}
	}
	return n
}

func readJSONPatch(data []byte, validation string) (*change, error) {
	c := &change{}
	if validation != metav1.FieldValidationIgnore {
		var shape []struct {
			Op    string `json:"op"`
			Path  string `json:"path"`
			From  string `json:"from"`
			Value any    `json:"value"`
		}
		strict, err := kjson.UnmarshalStrict(data, &shape)
		if err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
		}
		for _, err := range strict {
			c.strict = append(c.strict, fmt.Errorf("json patch %w", err))
		}
	}
	ops, err := jsonpatch.DecodePatch(data)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if len(ops) > maxJSONPatchOperations {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
			"The allowed maximum operations in a JSON patch is %d, got %d", maxJSONPatchOperations, len(ops)))
	}
	c.apply = func(doc []byte, _ any) ([]byte, error) { return unprocessable(ops.Apply(doc)) }
	return c, nil
}

// refuse words what is wrong with what a patch makes of a document.
func (c *change) refuse(doc []byte, shape runtime.Object, err error) error {
	shown := string(clip(doc))
	if c.fields != nil {
		shown = string(clip(fmt.Appendf(nil, "%+v", c.fields)))
		// Kubernetes' words for a type that doesn't fit are its converter's.
		var whole map[string]any
		if fresh := reflect.New(reflect.TypeOf(shape).Elem()); !runtime.IsStrictDecodingError(err) && kjson.UnmarshalCaseSensitivePreserveInts(doc, &whole) == nil {
			if known := runtime.DefaultUnstructuredConverter.FromUnstructured(whole, fresh.Interface()); known != nil {
				err = known
			}
		}
	}
	return apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{field.Invalid(field.NewPath("patch"), shown, err.Error())})
}

// into decodes what the patch makes of a document.
func (c *change) into(doc []byte, shape runtime.Object, validation string, warn func(string)) error {
	doc, err := c.apply(doc, shape)
	if err != nil {
		return err
	}
	if _, err := wire.DecodeJSONInto(doc, shape, validation, warn); err != nil {
		return c.refuse(doc, shape, err)
	}
	switch {
	case len(c.strict) == 0:
	case validation == metav1.FieldValidationStrict:
		return c.refuse(doc, shape, runtime.NewStrictDecodingError(c.strict))
	case warn != nil:
		for _, err := range c.strict {
			warn(err.Error())
		}
	}
	return nil
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
func patched(r *Request, old store.Object, c *change) (store.Object, error) {
	before, err := r.Kind.In(r.version(), old)
	if err != nil {
		return nil, err
	}
	// A patch may test for the kind, or write it.
	before = r.Kind.Shallow(before)
	before.GetObjectKind().SetGroupVersionKind(r.version().WithKind(r.Kind.Name))
	doc, err := json.Marshal(before)
	if err != nil {
		return nil, err
	}
	next, err := r.Kind.NewIn(r.version())
	if err != nil {
		return nil, err
	}
	if err := c.into(doc, next, r.FieldValidation, r.Warn); err != nil {
		return nil, err
	}
	if err := checkSize(r, next); err != nil {
		return nil, err
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

// applied is what a client wants by a server-side apply.
func applied(r *Request, p Patch) (*unstructured.Unstructured, error) {
	if r.Manager == "" {
		return nil, apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("PatchOptions").GroupKind(), "", field.ErrorList{
			field.Required(field.NewPath("fieldManager"), "is required for apply patch"),
		})
	}
	want, err := wire.DecodeApply(p.Data, r.FieldValidation, r.Warn)
	if err != nil {
		return nil, err
	}
	if err := checkApplied(r, want.Object); err != nil {
		return nil, err
	}
	if want.GetName() == "" {
		want.SetName(r.Name)
	}
	if r.Kind.Namespaced && want.GetNamespace() == "" {
		want.SetNamespace(r.Namespace)
	}
	return want, nil
}

// apply is server-side apply.
func (reg *Registry) apply(ctx context.Context, r *Request, p Patch) (store.Object, bool, error) {
	want, err := applied(r, p)
	if err != nil {
		return nil, false, err
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
	for try := 1; ; try++ {
		obj, made, err := reg.applyOnce(ctx, r, want, merge)
		// Somebody else made it meanwhile: it is merged into theirs.
		if try == attempts || !apierrors.IsAlreadyExists(err) && (!apierrors.IsNotFound(err) || r.Subresource != "" || missing(reg, r)) {
			return obj, made, err
		}
	}
}

// applyOnce merges into the object that is there, or makes one.
func (reg *Registry) applyOnce(
	ctx context.Context, r *Request, want *unstructured.Unstructured, merge func(live store.Object) (store.Object, error),
) (store.Object, bool, error) {
	merged := *r
	merged.applied = true
	updated, err := reg.Modify(ctx, &merged, func(old store.Object) (store.Object, error) {
		next, err := merge(old)
		if err != nil {
			return nil, err
		}
		if err := samePlace(r, next); err != nil {
			return nil, err
		}
		// The merged object is of the stored version unless the client names one.
		return next, current(r, next, old)
	})
	if !apierrors.IsNotFound(err) || r.Subresource != "" || want.GetUID() != "" || !missing(reg, r) {
		return updated, false, err
	}
	fresh, err := merge(r.Kind.New())
	if err != nil {
		return nil, false, err
	}
	if err := samePlace(r, fresh); err != nil {
		return nil, false, err
	}
	made, err := reg.createInstead(ctx, &merged, fresh)
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
