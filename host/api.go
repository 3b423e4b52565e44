package host

import (
	"net/http"

	"github.com/berth-dev/berth/host/api"
	"github.com/berth-dev/berth/host/api/aggregate"
	"github.com/berth-dev/berth/host/api/stream"
	"github.com/berth-dev/berth/host/auth/view"
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
	connectors["pods/explain"] = h.berth.Explain
	h.aggregate = aggregate.New(aggregate.Config{
		Objects: view.Of(h.store), Registry: h.registry, Certificate: h.auth.FrontProxyClient.Certificate, Dial: h.DialBackend, Log: h.Log,
	})
	config := api.Config{Registry: h.registry, Aggregate: h.aggregate, Connectors: connectors, Uploads: h.berth.Uploads(h.registry), Metrics: h.usage, Log: h.Log}
	endAudit, err := h.guard(&config)
	if err != nil {
		return nil, nil, err
	}
	handler, err = api.New(config)
	return handler, func() { streams.Close(); endAudit() }, err
}
