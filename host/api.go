package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/berth-dev/berth/host/api"
	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/api/stream"
	"github.com/berth-dev/berth/host/auth/view"
	"github.com/berth-dev/berth/host/policy/module"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/store"
	"github.com/berth-dev/berth/host/usage"
)

// handler makes the API. close ends the connections to node agents and the
// audit log.
func (h *Host) handler() (handler http.Handler, close func(), err error) {
	streams := stream.New(stream.Config{
		Objects: view.Of(h.store), May: h.auth.Access, Certificate: h.auth.AgentClient.Certificate,
		Agents: h.auth.Agents.Pool(), Log: h.Log,
	})
	h.usage = usage.New(view.Of(h.store), streams.Fetch, h.Log)
	connectors := streams.Connectors()
	connectors["pods/explain"] = h.explain
	config := api.Config{Registry: h.registry, Connectors: connectors, ModuleUpload: h.upload, Metrics: h.usage, Log: h.Log}
	endAudit, err := h.guard(&config)
	if err != nil {
		return nil, nil, err
	}
	handler, err = api.New(config)
	return handler, func() { streams.Close(); endAudit() }, err
}

// upload takes a module as it comes over the wire.
func (h *Host) upload(ctx context.Context, r *http.Request, about *registry.Request) (store.Object, error) {
	wasm, done, err := h.loader.Modules.Receive(about.User.GetName(), r.Body)
	switch {
	case errors.Is(err, module.ErrTooLarge):
		return nil, apierrors.NewRequestEntityTooLargeError(err.Error())
	case errors.Is(err, module.ErrBusy):
		return nil, apierrors.NewTooManyRequests(err.Error(), 1)
	case err != nil:
		return nil, apierrors.NewBadRequest("read the module: " + err.Error())
	}
	defer done()
	signatures, err := signaturesOf(r)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	m, err := h.admit(ctx, wasm, signatures, about.DryRun)
	if err != nil {
		return nil, err
	}
	about.Name = m.Name
	if about.DryRun {
		return m, nil
	}
	made, err := h.registry.Create(context.WithValue(ctx, admitted{}, m), about, m)
	if apierrors.IsAlreadyExists(err) {
		return h.signedAnew(ctx, m)
	}
	return made, err
}

// signedAnew adds signatures to a module that is there already.
func (h *Host) signedAnew(ctx context.Context, m *v1alpha1.Module) (store.Object, error) {
	return h.store.Update(ctx, store.Key{Resource: v1alpha1.Modules, Name: m.Name}, func(o store.Object) (store.Object, error) {
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
		// Whose they are nobody need know here, so those that came first give way.
		next.Spec.Signatures = next.Spec.Signatures[max(0, len(next.Spec.Signatures)-module.MaxSignatures):]
		return next, nil
	})
}

// admit examines a module and keeps its bytes, unless the run is dry.
func (h *Host) admit(ctx context.Context, wasm []byte, signatures []v1alpha1.Signature, dryRun bool) (*v1alpha1.Module, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	m, err := h.loader.Modules.Examine(ctx, wasm, signatures)
	if errors.Is(err, module.ErrRefused) {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if err != nil || dryRun {
		return m, err
	}
	if err := h.loader.Modules.Keep(ctx, m, wasm); errors.Is(err, module.ErrFull) {
		return nil, apierrors.NewTooManyRequests(err.Error(), 60)
	} else if err != nil {
		return nil, err
	}
	return m, nil
}

// admitted is the key of the Module that a request has brought in already.
type admitted struct{}

// takeInline turns a Module that was created with its bytes in it into one
// that names them. One without may come back as long as its bytes are here.
func (h *Host) takeInline(ctx context.Context, r *registry.Request, o store.Object) error {
	m, ok := o.(*v1alpha1.Module)
	if !ok || ctx.Value(admitted{}) != nil {
		return nil
	}
	wasm := m.Spec.Wasm
	if len(wasm) == 0 {
		var err error
		if wasm, err = h.store.Blob(ctx, m.Spec.Digest); err != nil {
			return apierrors.NewBadRequest("spec.wasm is missing: a Module comes with its bytes, in base64")
		}
	}
	taken, err := h.admit(ctx, wasm, m.Spec.Signatures, r.DryRun)
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

// signatureHeader carries signatures of an uploaded module, each KEYID=BASE64.
const signatureHeader = "Berth-Signature"
