package host

import (
	"context"
	"maps"

	"github.com/berth-dev/berth/host/api"
	"github.com/berth-dev/berth/host/api/admission"
	"github.com/berth-dev/berth/host/api/audit"
	"github.com/berth-dev/berth/host/api/flowcontrol"
	"github.com/berth-dev/berth/host/auth/bootstrap"
	"github.com/berth-dev/berth/host/auth/serviceaccount"
	"github.com/berth-dev/berth/host/auth/view"
)

// admission completes and refuses what is written, by Kubernetes' plugins.
func (h *Host) admission() *admission.Chain {
	return admission.New(admission.Config{Objects: view.Of(h.store), Access: h.auth.Access, Defaults: h.auth.Defaults})
}

// guard puts into the API's configuration who may ask, what and how much, and
// the audit log if one is wanted. end ends the log after its last line.
func (h *Host) guard(c *api.Config) (end func(), err error) {
	c.Authenticator, c.Authorizer, c.Reviewer = h.auth, h.auth.Access, h.auth
	c.Fairness = flowcontrol.New(flowcontrol.Defaults(processors), h.MaxStreams)
	discovery := api.Route{Handler: h.auth.Accounts.Discovery()}
	c.Routes = map[string]api.Route{
		"POST " + bootstrap.Path:                  {Handler: h.auth.Join, Public: true},
		"GET /metrics":                            {Handler: h.metrics()},
		"GET " + serviceaccount.ConfigurationPath: discovery,
		"GET " + serviceaccount.KeysPath:          discovery,
	}
	maps.Copy(c.Routes, h.berth.Routes())
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
