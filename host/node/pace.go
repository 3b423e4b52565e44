package node

import (
	"log/slog"
	"slices"
	"time"

	"golang.org/x/time/rate"
	v1 "k8s.io/api/core/v1"
)

// Kubernetes' defaults: how many nodes of a zone a second get the taint that evicts
// their pods, and how many of a large zone of which a large share is not ready. In a
// small one of these none does.
const (
	evictionRate          = rate.Limit(0.1)
	secondaryEvictionRate = rate.Limit(0.01)
	largeZone             = 50
	unhealthyShare        = 0.55
)

// excludeDisruption is the label of nodes that do not count when zones are judged.
const excludeDisruption = "node.kubernetes.io/exclude-disruption"

// pace says which nodes may get the taint that evicts: where many are lost at once
// it is likelier that nobody hears them than that all have died.
type pace struct {
	zones map[string]*zone
	// stopped: no node is ready, so none keeps the taint.
	stopped bool
	log     *slog.Logger
}

type zone struct {
	ready, unready int
	limiter        *rate.Limiter
}

// survey judges the zones by which of their nodes are ready.
func (p *pace) survey(nodes []*heard, now time.Time) {
	zones, ready, unready := map[string]*zone{}, 0, 0
	for _, node := range nodes {
		z := zones[node.zone]
		if z == nil {
			z = &zone{limiter: rate.NewLimiter(evictionRate, 1)}
			if old := p.zones[node.zone]; old != nil {
				z.limiter = old.limiter
			}
			zones[node.zone] = z
		}
		switch {
		case node.excluded:
		case node.ready:
			z.ready++
		default:
			z.unready++
		}
	}
	for _, z := range zones {
		ready, unready = ready+z.ready, unready+z.unready
		if limit := z.rate(); limit != z.limiter.Limit() {
			z.limiter.SetLimitAt(now, limit)
		}
	}
	stopped := ready == 0 && unready > 0
	switch {
	case stopped && !p.stopped:
		p.log.Warn("no node is ready: no pods are evicted", "nodes", unready)
	case p.stopped && !stopped:
		p.log.Info("nodes are ready again: pods of others are evicted", "ready", ready, "unready", unready)
	}
	p.zones, p.stopped = zones, stopped
}

// rate is how many nodes a second of the zone may get the taint.
func (z *zone) rate() rate.Limit {
	all := z.ready + z.unready
	switch {
	case z.ready == 0 || z.unready <= 2 || float64(z.unready) < unhealthyShare*float64(all):
		return evictionRate
	case all > largeZone:
		return secondaryEvictionRate
	}
	return 0
}

// keeps says whether a node that is not ready keeps the taint that evicts.
func (p *pace) keeps(node *v1.Node) bool {
	return !p.stopped && slices.ContainsFunc(node.Spec.Taints, func(t v1.Taint) bool { return t.Effect == v1.TaintEffectNoExecute && has(owned, &t) })
}

// evicts says whether a node that is not ready has the taint from now on.
func (p *pace) evicts(node *heard, now time.Time) bool {
	if p.stopped || p.keeps(node.node) {
		return !p.stopped
	}
	limiter := p.zones[node.zone].limiter
	return limiter.Limit() > 0 && limiter.AllowN(now, 1)
}
