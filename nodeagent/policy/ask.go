package policy

import (
	"net/netip"
	"slices"

	"github.com/berth-dev/berth/nodeagent/forward"
)

// Connection is one that somebody would begin. Pods are named by the ids that
// they were put by; who is none of the cluster has an address alone.
type Connection struct {
	From, To         string
	FromAddr, ToAddr netip.Addr
	Protocol         forward.Protocol
	Port             uint16
}

// Verdict is what one side's policies say of a connection.
type Verdict struct {
	Allowed bool
	// Policies that select the pod: without any, all is allowed.
	Policies []string
}

// Ask tells what policies make of a connection: those of who begins it, and those
// of who is to answer. Of pods that were put as local alone is it known.
func (b *Book) Ask(c Connection) (egress, ingress Verdict) {
	egress, ingress = Verdict{Allowed: true}, Verdict{Allowed: true}
	if c.From != "" && c.From == c.To {
		return egress, ingress // to itself a pod may always talk
	}
	if e := b.pods[c.From]; e != nil {
		_, egress.Policies = b.Selecting(c.From)
		egress.Allowed = e.egress == nil || b.allows(e.egress, c.ToAddr, c)
	}
	if e := b.pods[c.To]; e != nil {
		ingress.Policies, _ = b.Selecting(c.To)
		ingress.Allowed = e.ingress == nil || b.allows(e.ingress, c.FromAddr, c)
	}
	return egress, ingress
}

func (b *Book) allows(a *allowed, peer netip.Addr, c Connection) bool {
	return slices.ContainsFunc(a.List, func(l forward.Allow) bool {
		if l.Named {
			return b.selections[l.Set].members[forward.Member{Addr: peer, Port: c.Port, Protocol: c.Protocol}] > 0
		}
		if len(l.Ports) > 0 && !slices.ContainsFunc(l.Ports, func(p forward.Ports) bool {
			return p.Protocol == c.Protocol && p.First <= c.Port && c.Port <= p.Last
		}) {
			return false
		}
		switch {
		case l.Everybody:
			return true
		case l.Set != "":
			return b.selections[l.Set].members[forward.Member{Addr: peer}] > 0
		}
		return contains(l.Ranges, peer)
	})
}
