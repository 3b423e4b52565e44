package host

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/berth-dev/berth/host/api"
	"github.com/berth-dev/berth/host/api/kind"
	"github.com/berth-dev/berth/host/controller"
	"github.com/berth-dev/berth/host/custommetrics"
)

// adapters are what adapters answered, by the ServiceAccount that asked: a policy
// and its trials share it.
type adapters struct {
	mu sync.Mutex
	of map[string]*custommetrics.Metrics
}

// metricsFor asks adapters as who; nil while the host starts.
func (h *Host) metricsFor(who user.Info) controller.Metrics {
	h.adapters.mu.Lock()
	defer h.adapters.mu.Unlock()
	if m := h.adapters.of[who.GetName()]; m != nil {
		return m
	}
	if h.aggregate == nil {
		return nil
	}
	client, err := (&custommetrics.Adapters{Aggregate: h.aggregate, Who: who, May: h.mayAsk, Resource: resourceOf}).Client()
	if err != nil {
		h.Log.Warn("no client for adapters of metrics", "err", err)
		return nil
	}
	if h.adapters.of == nil {
		h.adapters.of = map[string]*custommetrics.Metrics{}
	}
	m := custommetrics.New(client, h.Now)
	h.adapters.of[who.GetName()] = m
	return m
}

// mayAsk is nil where a request is allowed.
func (h *Host) mayAsk(ctx context.Context, asks authorizer.Attributes) error {
	decision, reason, err := h.auth.Access.Authorize(ctx, asks)
	if decision == authorizer.DecisionAllow {
		return nil
	}
	if err != nil {
		reason = err.Error()
	}
	return api.Forbidden(asks.(authorizer.AttributesRecord), reason)
}

func resourceOf(gk schema.GroupKind) (string, bool) {
	k, ok := kind.ByName(gk)
	if !ok {
		return "", false
	}
	return k.Resource, true
}
