package host

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"
	"maps"

	"github.com/berth-dev/berth/host/api"
	"github.com/berth-dev/berth/host/api/admission"
	"github.com/berth-dev/berth/host/api/audit"
	"github.com/berth-dev/berth/host/api/flowcontrol"
	"github.com/berth-dev/berth/host/auth/bootstrap"
	"github.com/berth-dev/berth/host/auth/serviceaccount"
	"github.com/berth-dev/berth/host/auth/view"
	"github.com/berth-dev/berth/host/console"
)

// admission completes and refuses what is written, by Kubernetes' plugins.
func (h *Host) admission() *admission.Chain {
	return admission.New(admission.Config{Objects: view.Of(h.store), Access: h.auth.Access, Defaults: h.auth.Defaults})
}

// guard puts into the API's configuration who may ask, what and how much, and
// the audit log if one is wanted. end ends the log after its last line.
func (h *Host) guard(c *api.Config) (end func(), err error) {
	pages, err := h.console()
	if err != nil {
		return nil, err
	}
	c.Authenticator, c.Impersonate, c.Authorizer, c.Reviewer = pages.Authenticator(h.auth), h.auth.Impersonate, h.auth.Access, h.auth
	c.Fairness = flowcontrol.New(flowcontrol.Defaults(processors), h.MaxStreams)
	discovery := api.Route{Handler: h.auth.Accounts.Discovery()}
	c.Routes = map[string]api.Route{
		"POST " + bootstrap.Path:                  {Handler: h.auth.Join, Public: true},
		"GET /metrics":                            {Handler: h.metrics()},
		"GET " + serviceaccount.ConfigurationPath: discovery,
		"GET " + serviceaccount.KeysPath:          discovery,
	}
	maps.Copy(c.Routes, h.berth.Routes())
	maps.Copy(c.Routes, pages.Routes())
	c.Audit = h.histograms.answered
	if h.AuditLog == "" {
		return func() {}, nil
	}
	log, err := audit.Open(h.AuditLog, audit.Options{Log: h.Log})
	if err != nil {
		return nil, err
	}
	c.Audit = func(a *api.Audited) {
		h.histograms.answered(a)
		log.Record((*audit.Request)(a))
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := log.Run(ctx); err != nil {
			h.Log.Error("audit log", "err", err)
		}
	}()
	return func() {
		cancel()
		<-done
	}, nil
}

// console makes the console. Its sessions are known again by a key that lies beside
// the authority's, so that they outlive the host.
func (h *Host) console() (*console.Console, error) {
	key, err := h.auth.Authority.SigningKey("console")
	if err != nil {
		return nil, err
	}
	secret, err := key.Bytes()
	if err != nil {
		return nil, fmt.Errorf("key of the console's sessions: %w", err)
	}
	sessions, err := hkdf.Key(sha256.New, secret, nil, "berth console sessions", sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("key of the console's sessions: %w", err)
	}
	return console.New(console.Config{Scheduler: h.scheduler, Objects: h.store, May: h.auth.Access, Key: sessions, Now: h.Now}), nil
}
