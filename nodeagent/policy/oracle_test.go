package policy

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/berth-dev/berth/nodeagent/forward"
)

// cluster is an invented one.
type cluster struct {
	namespaces map[string]map[string]string
	pods       map[string]*Pod
	local      map[string]bool
	policies   map[types.NamespacedName]*networkingv1.NetworkPolicy
}

// naive says by the words of the API's documentation whether policies allow a
// connection on one side: slowly, and one thing after the other.
func (c *cluster) naive(way networkingv1.PolicyType, of, peer *Pod, peerAddr netip.Addr, answers *Pod, protocol forward.Protocol, port uint16) bool {
	isolated := false
	for name, p := range c.policies {
		if name.Namespace != of.Namespace || !matches(&p.Spec.PodSelector, of.Labels) || !slices.Contains(p.Spec.PolicyTypes, way) {
			continue
		}
		isolated = true
		if way == networkingv1.PolicyTypeIngress {
			for _, r := range p.Spec.Ingress {
				if c.peer(r.From, name.Namespace, peer, peerAddr) && onPort(r.Ports, answers, protocol, port) {
					return true
				}
			}
			continue
		}
		for _, r := range p.Spec.Egress {
			if c.peer(r.To, name.Namespace, peer, peerAddr) && onPort(r.Ports, answers, protocol, port) {
				return true
			}
		}
	}
	return !isolated
}

func matches(s *metav1.LabelSelector, has map[string]string) bool {
	sel, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && sel.Matches(labels.Set(has))
}

func (c *cluster) peer(list []networkingv1.NetworkPolicyPeer, home string, p *Pod, addr netip.Addr) bool {
	if len(list) == 0 {
		return true
	}
	for _, l := range list {
		if l.IPBlock != nil {
			if !netip.MustParsePrefix(l.IPBlock.CIDR).Contains(addr) {
				continue
			}
			if !slices.ContainsFunc(l.IPBlock.Except, func(x string) bool { return netip.MustParsePrefix(x).Contains(addr) }) {
				return true
			}
			continue
		}
		if p == nil {
			continue
		}
		if l.NamespaceSelector == nil && p.Namespace != home {
			continue
		}
		if l.NamespaceSelector != nil {
			all := len(l.NamespaceSelector.MatchLabels)+len(l.NamespaceSelector.MatchExpressions) == 0
			if has, there := c.namespaces[p.Namespace]; !all && (!there || !matches(l.NamespaceSelector, has)) {
				continue
			}
		}
		if l.PodSelector == nil || matches(l.PodSelector, p.Labels) {
			return true
		}
	}
	return false
}

func onPort(list []networkingv1.NetworkPolicyPort, answers *Pod, protocol forward.Protocol, port uint16) bool {
	if len(list) == 0 {
		return true
	}
	for _, l := range list {
		if p, _ := forward.ProtocolOf(string(*l.Protocol)); p != protocol {
			continue
		}
		switch {
		case l.Port == nil:
			return true
		case l.Port.Type == intstr.String:
			if answers != nil && slices.Contains(answers.Ports, Port{l.Port.StrVal, port, protocol}) {
				return true
			}
		case l.EndPort != nil:
			if int32(port) >= l.Port.IntVal && int32(port) <= *l.EndPort {
				return true
			}
		case l.Port.IntVal == int32(port):
			return true
		}
	}
	return false
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func someLabels(r *rand.Rand) map[string]string {
	out := map[string]string{}
	for _, key := range []string{"app", "tier"} {
		if r.IntN(3) > 0 {
			out[key] = pick(r, "a", "b", "c")
		}
	}
	return out
}

func someSelector(r *rand.Rand) *metav1.LabelSelector {
	out := &metav1.LabelSelector{}
	switch r.IntN(5) {
	case 0:
	case 1:
		out.MatchLabels = map[string]string{pick(r, "app", "tier"): pick(r, "a", "b", "c")}
	case 2:
		out.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: pick(r, metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn), Values: []string{"a", pick(r, "b", "c")}}}
	case 3:
		out.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "tier", Operator: pick(r, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist)}}
	case 4:
		out.MatchLabels = map[string]string{"app": "nobody"}
	}
	return out
}

func somePeers(r *rand.Rand) (out []networkingv1.NetworkPolicyPeer) {
	for range r.IntN(3) {
		p := networkingv1.NetworkPolicyPeer{}
		switch r.IntN(4) {
		case 0:
			p.PodSelector = someSelector(r)
		case 1:
			p.NamespaceSelector = someSelector(r)
		case 2:
			p.PodSelector, p.NamespaceSelector = someSelector(r), someSelector(r)
		case 3:
			p.IPBlock = pick(r,
				&networkingv1.IPBlock{CIDR: "10.0.0.0/24", Except: []string{"10.0.0.4/30", "10.0.0.9/32"}},
				&networkingv1.IPBlock{CIDR: "0.0.0.0/0", Except: []string{"10.0.0.0/25"}},
				&networkingv1.IPBlock{CIDR: "0.0.0.0/0"}, &networkingv1.IPBlock{CIDR: "10.0.0.8/29"},
				&networkingv1.IPBlock{CIDR: "fd00::/64", Except: []string{"fd00::8/125"}}, &networkingv1.IPBlock{CIDR: "::/0"})
		}
		out = append(out, p)
	}
	return out
}

func somePorts(r *rand.Rand) (out []networkingv1.NetworkPolicyPort) {
	for range r.IntN(3) {
		p := networkingv1.NetworkPolicyPort{Protocol: new(pick(r, v1.ProtocolTCP, v1.ProtocolUDP, v1.ProtocolSCTP))}
		switch r.IntN(4) {
		case 0:
		case 1:
			p.Port = new(intstr.FromInt32(pick(r, int32(80), 81)))
		case 2:
			p.Port, p.EndPort = new(intstr.FromInt32(80)), new(pick(r, int32(80), 82))
		case 3:
			p.Port = new(intstr.FromString(pick(r, "web", "dns")))
		}
		out = append(out, p)
	}
	return out
}

func somePolicy(r *rand.Rand, name types.NamespacedName) *networkingv1.NetworkPolicy {
	p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
	p.Spec.PodSelector = *someSelector(r)
	p.Spec.PolicyTypes = pick(r, []networkingv1.PolicyType{"Ingress"}, []networkingv1.PolicyType{"Egress"}, []networkingv1.PolicyType{"Ingress", "Egress"})
	for range r.IntN(3) {
		p.Spec.Ingress = append(p.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{From: somePeers(r), Ports: somePorts(r)})
		p.Spec.Egress = append(p.Spec.Egress, networkingv1.NetworkPolicyEgressRule{To: somePeers(r), Ports: somePorts(r)})
	}
	return p
}

func somePod(r *rand.Rand, namespace string, i int) *Pod {
	p := &Pod{Namespace: namespace, Name: fmt.Sprint("p", i), Labels: someLabels(r)}
	if r.IntN(8) > 0 {
		p.IPs = []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})}
		if r.IntN(2) > 0 {
			p.IPs = append(p.IPs, netip.MustParseAddr(fmt.Sprintf("fd00::%x", i)))
		}
	}
	for _, name := range []string{"web", "dns"} {
		if r.IntN(2) > 0 {
			p.Ports = append(p.Ports, Port{name, pick(r, uint16(80), 81, 82), pick(r, forward.TCP, forward.UDP)})
		}
	}
	return p
}

var invented = []string{"x", "y", "z"}

// change makes one thing other, in the cluster and in the book.
func (c *cluster) change(r *rand.Rand, b *Book) {
	ns := pick(r, invented...)
	switch r.IntN(6) {
	case 0:
		if _, there := c.namespaces[ns]; there && r.IntN(4) == 0 {
			delete(c.namespaces, ns)
			b.PutNamespace(ns, nil, false)
			return
		}
		c.namespaces[ns] = someLabels(r)
		b.PutNamespace(ns, c.namespaces[ns], true)
	case 1, 2:
		name := types.NamespacedName{Namespace: ns, Name: fmt.Sprint("policy", r.IntN(3))}
		if r.IntN(3) == 0 {
			delete(c.policies, name)
			b.PutPolicy(name, nil)
			return
		}
		c.policies[name] = somePolicy(r, name)
		b.PutPolicy(name, c.policies[name])
	default:
		i := 1 + r.IntN(12)
		id := fmt.Sprint("uid", i)
		if r.IntN(4) == 0 {
			delete(c.pods, id)
			b.Put(id, nil, false)
			return
		}
		local := i <= 8
		if old := c.pods[id]; old != nil {
			ns = old.Namespace
		}
		c.pods[id] = somePod(r, ns, i)
		c.local[id] = local
		b.Put(id, c.pods[id], local)
	}
}

// fill gives a book of all there is.
func (c *cluster) fill() *Book {
	b := NewBook()
	for name, p := range c.policies {
		b.PutPolicy(name, p)
	}
	for id, p := range c.pods {
		b.Put(id, p, c.local[id])
	}
	for ns, has := range c.namespaces {
		b.PutNamespace(ns, has, true)
	}
	return b
}

// kernel sums changes up, as the kernel does.
type kernel struct {
	Pods map[netip.Addr]*forward.Isolation
	Sets map[forward.Set]map[forward.Member]bool
}

func newKernel() *kernel {
	return &kernel{map[netip.Addr]*forward.Isolation{}, map[forward.Set]map[forward.Member]bool{}}
}

func (k *kernel) apply(t *testing.T, f forward.Filter) {
	for name, c := range f.Sets {
		if k.Sets[name] == nil || c.Anew {
			k.Sets[name] = map[forward.Member]bool{}
		}
		for _, m := range c.Leave {
			if !k.Sets[name][m] {
				t.Errorf("%v leaves set %s, where it is not", m, name)
			}
			delete(k.Sets[name], m)
		}
		for _, m := range c.Join {
			k.Sets[name][m] = true
		}
		if len(k.Sets[name]) == 0 {
			delete(k.Sets, name)
		}
	}
	for a, i := range f.Pods {
		if k.Pods[a] = i; i == nil {
			delete(k.Pods, a)
		}
	}
}

// TestItIsWhatTheAPISays: on invented clusters that change, each connection is
// judged as the words of the API judge it; and what changed sums up to what there is.
func TestItIsWhatTheAPISays(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		checkSeed(t, seed)
	}
}

func FuzzItIsWhatTheAPISays(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { checkSeed(t, seed) })
}

func checkSeed(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 14))
	c := &cluster{
		namespaces: map[string]map[string]string{}, pods: map[string]*Pod{}, local: map[string]bool{},
		policies: map[types.NamespacedName]*networkingv1.NetworkPolicy{},
	}
	b, k := NewBook(), newKernel()
	for round := range 8 {
		for range 12 {
			c.change(r, b)
		}
		k.apply(t, b.Change())
		fresh := newKernel()
		fresh.apply(t, c.fill().Change())
		if d := cmp.Diff(fresh, k, cmpopts.EquateEmpty(), cmpopts.EquateComparable(netip.Addr{})); d != "" {
			t.Fatalf("seed %d, round %d: the changes do not sum up to what there is (-is +sum):\n%s", seed, round, d)
		}
		c.compare(t, b, seed)
		if t.Failed() {
			return
		}
	}
	for id := range c.pods {
		b.Put(id, nil, false)
	}
	k.apply(t, b.Change())
	if len(k.Pods)+len(k.Sets)+len(b.selections)+len(b.allowed)+len(b.at) > 0 {
		t.Errorf("seed %d: without pods there are left %d isolated, %d sets, %d selections, %d allowed", seed, len(k.Pods), len(k.Sets), len(b.selections), len(b.allowed))
	}
}

func (c *cluster) compare(t *testing.T, b *Book, seed uint64) {
	t.Helper()
	type end struct {
		id   string
		pod  *Pod
		addr netip.Addr
	}
	ends := []end{{addr: netip.MustParseAddr("10.0.0.200")}, {addr: netip.MustParseAddr("192.0.2.1")}, {addr: netip.MustParseAddr("fd00::ff")}}
	for id, p := range c.pods {
		for _, a := range p.IPs {
			ends = append(ends, end{id, p, a})
		}
	}
	for _, from := range ends {
		for _, to := range ends {
			if from.addr.Is4() != to.addr.Is4() || from.id == to.id {
				continue
			}
			for _, protocol := range []forward.Protocol{forward.TCP, forward.UDP, forward.SCTP} {
				for _, port := range []uint16{80, 81, 82, 9} {
					out, in := b.Ask(Connection{From: from.id, To: to.id, FromAddr: from.addr, ToAddr: to.addr, Protocol: protocol, Port: port})
					wantOut := !c.local[from.id] || c.naive(networkingv1.PolicyTypeEgress, from.pod, to.pod, to.addr, to.pod, protocol, port)
					wantIn := !c.local[to.id] || c.naive(networkingv1.PolicyTypeIngress, to.pod, from.pod, from.addr, to.pod, protocol, port)
					if out.Allowed != wantOut || in.Allowed != wantIn {
						t.Fatalf("seed %d: %v to %v, protocol %d, port %d: egress %v, want %v; ingress %v, want %v", seed, from, to, protocol, port, out, wantOut, in, wantIn)
					}
				}
			}
		}
	}
}
