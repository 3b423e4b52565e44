package berthapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/berth-dev/berth/host/api"
	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/policy/module"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/store"
)

// MediaType is that of a module that comes as raw bytes.
const MediaType = "application/wasm"

// SignatureHeader carries signatures of an uploaded module, each KEYID=BASE64.
const SignatureHeader = "Berth-Signature"

// Uploads are the kinds whose objects may come as raw bytes.
func (a *API) Uploads(r *registry.Registry) map[string]api.Upload {
	return map[string]api.Upload{v1alpha1.Modules: {
		MediaType: MediaType,
		TooLarge:  "a module that is larger in its object is uploaded by `berth policy push`, or by a POST of its bytes as application/wasm; a Policy then names it as `kubectl get modules` does",
		Take: func(ctx context.Context, body *http.Request, about *registry.Request) (store.Object, error) {
			return a.upload(ctx, r, body, about)
		},
	}}
}

// upload takes a module as it comes over the wire, as if it had come within its
// object: BeforeCreate examines both.
func (a *API) upload(ctx context.Context, into *registry.Registry, r *http.Request, about *registry.Request) (store.Object, error) {
	wasm, done, err := a.Policies.Modules.Receive(about.User.GetName(), r.Body)
	switch {
	case errors.Is(err, module.ErrTooLarge):
		return nil, apierrors.NewRequestEntityTooLargeError(err.Error())
	case errors.Is(err, module.ErrBusy):
		return nil, apierrors.NewTooManyRequests(err.Error(), 1)
	case err != nil:
		return nil, apierrors.NewBadRequest("read the module: " + err.Error())
	case len(wasm) == 0:
		return nil, apierrors.NewBadRequest("the body is empty: it is the bytes of a module")
	}
	defer done()
	m := &v1alpha1.Module{Spec: v1alpha1.ModuleSpec{Wasm: wasm}}
	if m.Spec.Signatures, err = signaturesOf(r); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	made, err := into.Create(ctx, about, m)
	if apierrors.IsAlreadyExists(err) {
		return a.addSignatures(ctx, m, sha256.Sum256(wasm), about.DryRun)
	}
	return made, err
}

// addSignatures adds the signatures of m, whose bytes have that sum, to the module
// that is there already.
func (a *API) addSignatures(ctx context.Context, m *v1alpha1.Module, sum [sha256.Size]byte, dryRun bool) (store.Object, error) {
	if dryRun {
		return m, nil
	}
	return a.Store.Update(ctx, store.Key{Resource: v1alpha1.Modules, Name: m.Name}, func(o store.Object) (store.Object, error) {
		have, ok := o.(*v1alpha1.Module)
		if !ok {
			return o, nil
		}
		next := have.DeepCopy()
		for _, s := range m.Spec.Signatures {
			same := func(t v1alpha1.Signature) bool { return t.KeyID == s.KeyID && bytes.Equal(t.Value, s.Value) }
			if !slices.ContainsFunc(next.Spec.Signatures, same) {
				next.Spec.Signatures = append(next.Spec.Signatures, s)
			}
		}
		if len(next.Spec.Signatures) == len(have.Spec.Signatures) {
			return o, nil
		}
		next.Spec.Signatures = a.Policies.Modules.Trusted.Bounded(sum, next.Spec.Signatures)
		return next, nil
	})
}

// admit examines a module and keeps its bytes, unless the run is dry.
func (a *API) admit(ctx context.Context, sender string, wasm []byte, signatures []v1alpha1.Signature, dryRun bool) (*v1alpha1.Module, error) {
	m, err := a.Policies.Modules.Examine(ctx, sender, wasm, signatures)
	if errors.Is(err, module.ErrRefused) {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if err != nil || dryRun {
		return m, err
	}
	if err := a.Policies.Modules.Keep(ctx, m, wasm); errors.Is(err, module.ErrFull) {
		return nil, apierrors.NewTooManyRequests(err.Error(), 60)
	} else if err != nil {
		return nil, err
	}
	return m, nil
}

// BeforeCreate turns a Module that is created with its bytes in it into one that
// names them. One without may come back as long as its bytes are here.
func (a *API) BeforeCreate(ctx context.Context, r *registry.Request, o store.Object) error {
	m, ok := o.(*v1alpha1.Module)
	if !ok {
		return nil
	}
	wasm := m.Spec.Wasm
	if len(wasm) == 0 {
		var err error
		if wasm, err = a.Store.Blob(ctx, m.Spec.Digest); err != nil {
			return apierrors.NewBadRequest("spec.wasm is missing: a Module comes with its bytes, in base64")
		}
	}
	sender := ""
	if r.User != nil {
		sender = r.User.GetName()
	}
	taken, err := a.admit(ctx, sender, wasm, m.Spec.Signatures, r.DryRun)
	if err != nil {
		return err
	}
	if m.Name != "" && m.GenerateName == "" && m.Name != taken.Name {
		return apierrors.NewBadRequest(fmt.Sprintf("a Module is named by its bytes: name this one %s, or give metadata.generateName and take the name that comes back", taken.Name))
	}
	m.Spec, m.Status = taken.Spec, taken.Status
	m.Name, m.GenerateName = taken.Name, ""
	r.Name = taken.Name
	return nil
}

// signaturesOf reads the signatures that came with an upload.
func signaturesOf(r *http.Request) ([]v1alpha1.Signature, error) {
	var all []v1alpha1.Signature
	for _, value := range r.Header.Values(SignatureHeader) {
		s, err := module.ParseSignature(value)
		if err != nil {
			return nil, fmt.Errorf("header %s: %w", SignatureHeader, err)
		}
		all = append(all, s)
	}
	return all, nil
}
