package api

import (
	"context"
	"fmt"
	"mime"
	"net/http"
	"time"

	"github.com/berth-dev/berth/host/api/kind"
	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/api/wire"
	"github.com/berth-dev/berth/host/store"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// writing is what every write begins with.
func (k *call) writing() (wire.Typed, *registry.Request, error) {
	t, err := k.typed(false)
	if err != nil {
		return t, nil, err
	}
	r, err := k.request()
	return t, r, err
}

// sent reads the body as an object of the kind, of the stored version.
func (k *call) sent(r *registry.Request) (store.Object, error) {
	into, err := k.place.kind.NewIn(k.place.version)
	if err != nil {
		return nil, err
	}
	if err := k.decode(into, k.place.version.WithKind(k.place.kind.Name), r.FieldValidation); err != nil {
		return nil, err
	}
	if k.place.version == k.place.kind.Stored() {
		return into.(store.Object), nil
	}
	kind.Scheme.Default(into)
	return k.place.kind.From(into)
}

func (k *call) decode(into runtime.Object, want schema.GroupVersionKind, validation string) error {
	media, err := wire.BodyMedia(k.r.Header.Get("Content-Type"))
	if err != nil {
		return err
	}
	body, err := k.body()
	if err != nil {
		return err
	}
	return wire.Decode(body, media, want, into, validation, k.warn)
}

func (k *call) create() error {
	t, r, err := k.writing()
	if err != nil {
		return err
	}
	if upload, ok := k.upload(); ok {
		ctx, cancel := context.WithTimeout(k.r.Context(), uploadTime+time.Minute)
		defer cancel()
		defer k.boundUpload()()
		obj, err := upload.Take(ctx, k.r, r)
		if err != nil {
			return err
		}
		return k.object(http.StatusCreated, &t, obj)
	}
	ctx, cancel := k.context()
	defer cancel()
	obj, err := k.sent(r)
	if err != nil {
		return err
	}
	made, err := k.server.Registry.Create(ctx, r, obj)
	if err != nil {
		return err
	}
	return k.object(http.StatusCreated, &t, made)
}

// upload is how the body is to be taken, if it is an object's raw bytes.
func (k *call) upload() (Upload, bool) {
	u, ok := k.server.Uploads[k.place.kind.StoreName()]
	if !ok {
		return u, false
	}
	media, _, err := mime.ParseMediaType(k.r.Header.Get("Content-Type"))
	return u, err == nil && media == u.MediaType
}

func (k *call) update() error {
	t, r, err := k.writing()
	if err != nil {
		return err
	}
	obj, err := k.sent(r)
	if err != nil {
		return err
	}
	ctx, cancel := k.context()
	defer cancel()
	updated, created, err := k.server.Registry.Update(ctx, r, obj)
	if err != nil {
		return err
	}
	return k.object(codeOf(created), &t, updated)
}

func codeOf(created bool) int {
	if created {
		return http.StatusCreated
	}
	return http.StatusOK
}

// readPatch reads the body of a patch.
func (k *call) readPatch() (registry.Patch, error) {
	var p registry.Patch
	media, _, err := mime.ParseMediaType(k.r.Header.Get("Content-Type"))
	ok := false
	if err == nil {
		p.Type, ok = patchType(media)
	}
	if !ok {
		return p, registry.UnsupportedPatch(kind.AllPatchTypes)
	}
	if _, given := k.query["force"]; given && p.Type != types.ApplyPatchType {
		errs := field.ErrorList{field.Forbidden(field.NewPath("force"), "may not be specified for non-apply patch")}
		return p, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "PatchOptions"}, "", errs)
	}
	p.Force = k.query.flag("force")
	p.Data, err = k.body()
	return p, err
}

func (k *call) patch() error {
	t, r, err := k.writing()
	if err != nil {
		return err
	}
	p, err := k.readPatch()
	if err != nil {
		return err
	}
	ctx, cancel := k.context()
	defer cancel()
	obj, created, err := k.server.Registry.Patch(ctx, r, p)
	if err != nil {
		return err
	}
	return k.object(codeOf(created), &t, obj)
}

// options reads how to delete, from the body or from parameters.
func (k *call) options(r *registry.Request) (*metav1.DeleteOptions, error) {
	body, err := k.body()
	if err != nil {
		return nil, err
	}
	if len(body) == 0 {
		o, err := k.query.delete()
		if err != nil {
			return nil, err
		}
		if r.Name != "" { // a list's resourceVersion says which list
			o.Preconditions = k.query.preconditions()
		}
		r.DryRun = len(o.DryRun) > 0
		return o, nil
	}
	media, err := wire.BodyMedia(k.r.Header.Get("Content-Type"))
	if err != nil {
		return nil, err
	}
	o := &metav1.DeleteOptions{}
	if err := wire.DecodeOptions(body, media, o); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("DeleteOptions: %v", err))
	}
	if len(o.DryRun) == 0 {
		o.DryRun = k.query["dryRun"]
	}
	r.DryRun = len(o.DryRun) > 0
	return o, nil
}

func (k *call) delete() error {
	t, r, err := k.writing()
	if err != nil {
		return err
	}
	o, err := k.options(r)
	if err != nil {
		return err
	}
	ctx, cancel := k.context()
	defer cancel()
	obj, gone, err := k.server.Registry.Delete(ctx, r, o)
	if err != nil {
		return err
	}
	code := http.StatusOK
	if orphan := o.OrphanDependents; !gone && orphan != nil && !*orphan { //nolint:staticcheck // old clients still send it
		code = http.StatusAccepted
	}
	if !gone || k.place.kind.ShowsDeleted {
		return k.object(code, &t, obj)
	}
	k.status(code, &metav1.Status{Status: metav1.StatusSuccess, Details: &metav1.StatusDetails{
		Name: obj.GetName(), Group: k.place.version.Group, Kind: k.place.kind.Resource, UID: obj.GetUID(),
	}})
	return nil
}

func (k *call) deleteCollection() error {
	t, r, err := k.writing()
	if err != nil {
		return err
	}
	opts, err := k.query.list(r)
	if err != nil {
		return err
	}
	o, err := k.options(r)
	if err != nil {
		return err
	}
	ctx, cancel := k.context()
	defer cancel()
	found, err := k.server.Registry.DeleteCollection(ctx, r, o, opts.asList())
	if err != nil {
		return err
	}
	return k.page(&t, &wire.Page{Items: found.Items, Shared: found.Shared, Meta: metav1.ListMeta{
		ResourceVersion: fmt.Sprint(found.Revision), Continue: found.Continue, RemainingItemCount: found.RemainingItems,
	}})
}
