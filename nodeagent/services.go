package nodeagent

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/nodeagent/catalog"
	"github.com/berth-dev/berth/nodeagent/proxy"
)

// services tells workers what is sent to their pods.
type services struct {
	*catalog.Catalog
	proxy *proxy.Proxy // nil where others make services answer
}

// Withdrawn implements worker.Services: this machine's rules are as the catalog then.
func (s services) Withdrawn(ctx context.Context, p *v1.Pod) bool {
	by := s.Catalog.Withdrawn(ctx, p)
	if s.proxy != nil && len(by) > 0 {
		s.proxy.Settle(ctx, by...)
	}
	return len(by) > 0
}
