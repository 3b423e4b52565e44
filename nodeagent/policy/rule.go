package policy

import (
	"net"
	"net/netip"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	netutils "k8s.io/utils/net"

	"github.com/berth-dev/berth/nodeagent/forward"
)

// policy is a NetworkPolicy, read.
type policy struct {
	name    types.NamespacedName
	serial  uint64 // another one for each change of it
	pods    labels.Selector
	ingress *direction // nil: it does not isolate in this direction
	egress  *direction
}

type direction struct {
	rules []rule
	named bool // some rule names a port
}

// rule: peers and ports, each of them all if there is none.
type rule struct {
	peers     []peer
	ranges    []forward.Range
	everybody bool
	ports     []forward.Ports
	names     []portName
	anyPort   bool
}

// peer selects pods: of one namespace, or of those with some labels.
type peer struct {
	namespace  string
	namespaces labels.Selector
	pods       labels.Selector
}

type portName struct {
	name     string
	protocol forward.Protocol
}

// read takes a policy apart. What of it makes no sense allows nothing.
func read(p *networkingv1.NetworkPolicy, serial uint64) *policy {
	out := &policy{
		name: types.NamespacedName{Namespace: p.Namespace, Name: p.Name}, serial: serial, pods: selector(&p.Spec.PodSelector),
	}
	kinds := p.Spec.PolicyTypes
	if len(kinds) == 0 { // the API's default
		kinds = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
		if len(p.Spec.Egress) > 0 {
			kinds = append(kinds, networkingv1.PolicyTypeEgress)
		}
	}
	if slices.Contains(kinds, networkingv1.PolicyTypeIngress) {
		out.ingress = &direction{}
		for i := range p.Spec.Ingress {
			out.ingress.add(p.Namespace, p.Spec.Ingress[i].From, p.Spec.Ingress[i].Ports)
		}
	}
	if slices.Contains(kinds, networkingv1.PolicyTypeEgress) {
		out.egress = &direction{}
		for i := range p.Spec.Egress {
			out.egress.add(p.Namespace, p.Spec.Egress[i].To, p.Spec.Egress[i].Ports)
		}
	}
	return out
}

func (d *direction) add(namespace string, peers []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort) {
	r := rule{everybody: len(peers) == 0, anyPort: len(ports) == 0}
	for i := range peers {
		r.peer(namespace, &peers[i])
	}
	r.ranges = join(r.ranges)
	for i := range ports {
		r.port(&ports[i])
	}
	d.named = d.named || len(r.names) > 0
	d.rules = append(d.rules, r)
}

func (r *rule) peer(namespace string, p *networkingv1.NetworkPolicyPeer) {
	switch {
	case p.IPBlock != nil:
		r.ranges = append(r.ranges, block(p.IPBlock)...)
	case p.NamespaceSelector != nil:
		out := peer{namespaces: selector(p.NamespaceSelector), pods: labels.Everything()}
		if p.PodSelector != nil {
			out.pods = selector(p.PodSelector)
		}
		r.peers = append(r.peers, out)
	case p.PodSelector != nil:
		r.peers = append(r.peers, peer{namespace: namespace, pods: selector(p.PodSelector)})
	}
}

func (r *rule) port(p *networkingv1.NetworkPolicyPort) {
	protocol := forward.TCP
	if p.Protocol != nil {
		known := false
		if protocol, known = forward.ProtocolOf(string(*p.Protocol)); !known {
			return
		}
	}
	switch {
	case p.Port == nil:
		r.ports = append(r.ports, forward.Ports{Protocol: protocol, Last: 65535})
	case p.Port.Type == intstr.String:
		r.names = append(r.names, portName{p.Port.StrVal, protocol})
	default:
		last := p.Port.IntVal
		if p.EndPort != nil {
			last = *p.EndPort
		}
		if p.Port.IntVal > 0 && p.Port.IntVal <= last && last <= 65535 {
			r.ports = append(r.ports, forward.Ports{Protocol: protocol, First: uint16(p.Port.IntVal), Last: uint16(last)})
		}
	}
}

// selector of labels; what is none selects nothing.
func selector(s *metav1.LabelSelector) labels.Selector {
	out, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return labels.Nothing()
	}
	return out
}

// block gives the addresses of a CIDR that are in none of its exceptions.
func block(b *networkingv1.IPBlock) []forward.Range {
	whole, ok := rangeOf(b.CIDR)
	if !ok {
		return nil
	}
	out := []forward.Range{whole}
	for _, text := range b.Except {
		except, ok := rangeOf(text)
		if !ok {
			return nil // rather too few than too many
		}
		out = without(out, except)
	}
	return out
}

// rangeOf reads a CIDR as the API does, which once took leading zeros.
func rangeOf(text string) (forward.Range, bool) {
	_, n, err := netutils.ParseCIDRSloppy(text)
	if err != nil {
		return forward.Range{}, false
	}
	first, ok := netip.AddrFromSlice(n.IP)
	if !ok || first.Is4() != (len(n.Mask) == net.IPv4len) {
		return forward.Range{}, false
	}
	end := first.AsSlice()
	for i := range end {
		end[i] |= ^n.Mask[i]
	}
	last, _ := netip.AddrFromSlice(end) // as long as it was
	return forward.Range{First: first, Last: last}, true
}

// without takes a range out of others.
func without(all []forward.Range, out forward.Range) (left []forward.Range) {
	for _, r := range all {
		if r.First.Is4() != out.First.Is4() || out.Last.Less(r.First) || r.Last.Less(out.First) {
			left = append(left, r)
			continue
		}
		if r.First.Less(out.First) {
			left = append(left, forward.Range{First: r.First, Last: out.First.Prev()})
		}
		if out.Last.Less(r.Last) {
			left = append(left, forward.Range{First: out.Last.Next(), Last: r.Last})
		}
	}
	return left
}

// join sorts ranges, and makes one of those that meet.
func join(all []forward.Range) (out []forward.Range) {
	slices.SortFunc(all, func(a, b forward.Range) int { return a.First.Compare(b.First) })
	for _, r := range all {
		if n := len(out); n > 0 && out[n-1].First.Is4() == r.First.Is4() {
			last := out[n-1].Last
			if next := last.Next(); !next.IsValid() || !next.Less(r.First) {
				if last.Less(r.Last) {
					out[n-1].Last = r.Last
				}
				continue
			}
		}
		out = append(out, r)
	}
	return out
}

// contains tells whether an address is in one of some ranges.
func contains(all []forward.Range, a netip.Addr) bool {
	return slices.ContainsFunc(all, func(r forward.Range) bool {
		return r.First.Is4() == a.Is4() && !a.Less(r.First) && !r.Last.Less(a)
	})
}
