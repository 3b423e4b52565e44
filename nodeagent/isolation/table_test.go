package isolation

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"testing"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/berth-dev/berth/nodeagent/apitest"
	"github.com/berth-dev/berth/nodeagent/forward"
)

// The model is that of Kubernetes' own suite for network policies: namespaces x,
// y and z, each with pods a, b and c, which serve ports 80 and 81 by TCP, UDP and SCTP.
var model = []string{"x/a", "x/b", "x/c", "y/a", "y/b", "y/c", "z/a", "z/b", "z/c"}

func modelPod(i int) *v1.Pod {
	ns, name := model[i][:1], model[i][2:]
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, UID: types.UID(model[i]), Labels: map[string]string{"pod": name}}}
	c := v1.Container{Name: "c"}
	for _, port := range []int32{80, 81} {
		for _, protocol := range []v1.Protocol{v1.ProtocolTCP, v1.ProtocolUDP} {
			c.Ports = append(c.Ports, v1.ContainerPort{Name: fmt.Sprintf("serve-%d-%s", port, map[v1.Protocol]string{v1.ProtocolTCP: "tcp", v1.ProtocolUDP: "udp"}[protocol]), ContainerPort: port, Protocol: protocol})
		}
	}
	p.Spec.Containers = []v1.Container{c}
	return p
}

// probe is one square of a table.
type probe struct {
	from, to string
	port     uint16
	protocol forward.Protocol
}

// step changes something; then those are kept out of whom denied tells.
type step struct {
	name       string
	policies   []*networkingv1.NetworkPolicy
	labels     map[string]map[string]string // of pods
	namespaces map[string]map[string]string
	denied     func(p probe) bool
}

func selects(labels ...string) *metav1.LabelSelector {
	s := &metav1.LabelSelector{MatchLabels: map[string]string{}}
	for i := 0; i < len(labels); i += 2 {
		s.MatchLabels[labels[i]] = labels[i+1]
	}
	return s
}

func in(key string, values ...string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: metav1.LabelSelectorOpIn, Values: values}}}
}

type (
	peer    = networkingv1.NetworkPolicyPeer
	portOf  = networkingv1.NetworkPolicyPort
	ingress = networkingv1.NetworkPolicyIngressRule
	egress  = networkingv1.NetworkPolicyEgressRule
)

// policyFor is one of namespace x for some pods.
func policyFor(name string, pods *metav1.LabelSelector, in []ingress, out []egress) *networkingv1.NetworkPolicy {
	p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: name}}
	p.Spec = networkingv1.NetworkPolicySpec{PodSelector: *pods, Ingress: in, Egress: out}
	if in != nil {
		p.Spec.PolicyTypes = append(p.Spec.PolicyTypes, networkingv1.PolicyTypeIngress)
	}
	if out != nil {
		p.Spec.PolicyTypes = append(p.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
	}
	return p
}

func numbered(protocol v1.Protocol, first int32, last ...int32) portOf {
	out := portOf{Protocol: &protocol, Port: new(intstr.FromInt32(first))}
	if len(last) > 0 {
		out.EndPort = &last[0]
	}
	return out
}

func named(protocol v1.Protocol, name string) portOf {
	return portOf{Protocol: &protocol, Port: new(intstr.FromString(name))}
}

func one(s string, of ...string) bool {
	for _, o := range of {
		if s == o {
			return true
		}
	}
	return false
}

// intoX is what comes to a pod of x from another one, but for those that may.
func intoX(pods string, may func(p probe) bool) func(probe) bool {
	return func(p probe) bool {
		return p.to[:1] == "x" && (pods == "" || pods == p.to[2:]) && !may(p)
	}
}

func outOfX(pods string, may func(p probe) bool) func(probe) bool {
	return func(p probe) bool {
		return p.from[:1] == "x" && (pods == "" || pods == p.from[2:]) && !may(p)
	}
}

func never(probe) bool { return false }

var everyone = &metav1.LabelSelector{}

func steps() []step { return append(peerSteps(), portSteps()...) }

// portSteps are of policies that name ports.
func portSteps() []step {
	web := selects("pod", "a")
	return []step{
		{
			name: "one port", policies: []*networkingv1.NetworkPolicy{policyFor("p", web, []ingress{{Ports: []portOf{numbered(v1.ProtocolTCP, 81)}}}, nil)},
			denied: intoX("a", func(p probe) bool { return p.port == 81 && p.protocol == forward.TCP }),
		},
		{
			name: "a protocol", policies: []*networkingv1.NetworkPolicy{policyFor("p", web, []ingress{{Ports: []portOf{{Protocol: new(v1.ProtocolUDP)}}}}, nil)},
			denied: intoX("a", func(p probe) bool { return p.protocol == forward.UDP }),
		},
		{
			name: "a port of SCTP", policies: []*networkingv1.NetworkPolicy{policyFor("p", web, []ingress{{Ports: []portOf{numbered(v1.ProtocolSCTP, 80)}}}, nil)},
			denied: intoX("a", func(p probe) bool { return p.port == 80 && p.protocol == forward.SCTP }),
		},
		{
			name: "a range of ports", policies: []*networkingv1.NetworkPolicy{policyFor("p", web, []ingress{{Ports: []portOf{numbered(v1.ProtocolTCP, 81, 90), numbered(v1.ProtocolUDP, 1, 80)}}}, nil)},
			denied: intoX("a", func(p probe) bool {
				return p.port == 81 && p.protocol == forward.TCP || p.port == 80 && p.protocol == forward.UDP
			}),
		},
		{
			name: "a named port", policies: []*networkingv1.NetworkPolicy{policyFor("p", web, []ingress{{Ports: []portOf{named(v1.ProtocolTCP, "serve-81-tcp")}}}, []egress{{Ports: []portOf{named(v1.ProtocolUDP, "serve-80-udp")}}})},
			denied: func(p probe) bool {
				return intoX("a", func(p probe) bool { return p.port == 81 && p.protocol == forward.TCP })(p) ||
					outOfX("a", func(p probe) bool { return p.port == 80 && p.protocol == forward.UDP })(p)
			},
		},
		{
			name: "peers and ports", policies: []*networkingv1.NetworkPolicy{policyFor("p", web, []ingress{
				{From: []peer{{NamespaceSelector: selects("ns", "y")}}, Ports: []portOf{numbered(v1.ProtocolTCP, 80)}},
				{From: []peer{{NamespaceSelector: selects("ns", "z")}}, Ports: []portOf{numbered(v1.ProtocolUDP, 81)}},
			}, nil)},
			denied: intoX("a", func(p probe) bool {
				return p.from[:1] == "y" && p.port == 80 && p.protocol == forward.TCP || p.from[:1] == "z" && p.port == 81 && p.protocol == forward.UDP
			}),
		},
	}
}

// peerSteps are of policies that name peers, and of what changes who these are.
func peerSteps() []step {
	web := selects("pod", "a")
	return []step{
		{name: "no policies", denied: never},
		{name: "deny all ingress", policies: []*networkingv1.NetworkPolicy{policyFor("deny", everyone, []ingress{}, nil)}, denied: intoX("", never)},
		{name: "deny all egress", policies: []*networkingv1.NetworkPolicy{policyFor("deny", everyone, nil, []egress{})}, denied: outOfX("", never)},
		{name: "allow all", policies: []*networkingv1.NetworkPolicy{policyFor("allow", everyone, []ingress{{}}, []egress{{}})}, denied: never},
		{
			name: "from pods of the same namespace", policies: []*networkingv1.NetworkPolicy{policyFor("p", web, []ingress{{From: []peer{{PodSelector: selects("pod", "b")}}}}, nil)},
			denied: intoX("a", func(p probe) bool { return p.from == "x/b" }),
		},
		{
			name: "from namespaces", policies: []*networkingv1.NetworkPolicy{policyFor("p", web, []ingress{{From: []peer{{NamespaceSelector: in("ns", "y", "nowhere")}}}}, nil)},
			denied: intoX("a", func(p probe) bool { return p.from[:1] == "y" }),
		},
		{
			name: "from pods of namespaces", policies: []*networkingv1.NetworkPolicy{policyFor("p", web, []ingress{{From: []peer{{NamespaceSelector: selects("ns", "y"), PodSelector: selects("pod", "c")}}}}, nil)},
			denied: intoX("a", func(p probe) bool { return p.from == "y/c" }),
		},
		{
			name:     "from pods, or from namespaces",
			policies: []*networkingv1.NetworkPolicy{policyFor("p", web, []ingress{{From: []peer{{NamespaceSelector: selects("ns", "y")}, {PodSelector: selects("pod", "c")}}}}, nil)},
			denied:   intoX("a", func(p probe) bool { return p.from[:1] == "y" || p.from == "x/c" }),
		},
		{
			name: "policies add up", policies: []*networkingv1.NetworkPolicy{
				policyFor("deny", everyone, []ingress{}, nil),
				policyFor("p", web, []ingress{{From: []peer{{NamespaceSelector: everyone}}, Ports: []portOf{numbered(v1.ProtocolTCP, 80)}}}, nil),
				policyFor("q", web, []ingress{{From: []peer{{PodSelector: selects("pod", "c")}}}}, nil),
			},
			denied: intoX("", func(p probe) bool {
				return p.to == "x/a" && (p.port == 80 && p.protocol == forward.TCP || p.from == "x/c")
			}),
		},
		{
			name: "egress to pods of namespaces", policies: []*networkingv1.NetworkPolicy{policyFor("p", web, nil, []egress{{To: []peer{{NamespaceSelector: selects("ns", "z"), PodSelector: in("pod", "a", "b")}}}})},
			denied: outOfX("a", func(p probe) bool { return one(p.to, "z/a", "z/b") }),
		},
		{
			name: "blocks of addresses with exceptions",
			policies: []*networkingv1.NetworkPolicy{policyFor("p", web, []ingress{{From: []peer{
				{IPBlock: &networkingv1.IPBlock{CIDR: "10.99.1.0/24", Except: []string{"10.99.1.12/31", "10.99.1.18/32"}}}, // x/c, y/a; z/c
				{IPBlock: &networkingv1.IPBlock{CIDR: "fd00:99::/64", Except: []string{"fd00:99::c/127", "fd00:99::12/128"}}},
			}}}, []egress{{To: []peer{{IPBlock: &networkingv1.IPBlock{CIDR: "10.99.1.11/32"}}, {IPBlock: &networkingv1.IPBlock{CIDR: "fd00:99::b/128"}}}}})},
			denied: func(p probe) bool {
				return intoX("a", func(p probe) bool { return !one(p.from, "x/c", "y/a", "z/c") })(p) || outOfX("a", func(p probe) bool { return p.to == "x/b" })(p)
			},
		},
		{
			name: "both sides must allow", policies: []*networkingv1.NetworkPolicy{
				policyFor("in", selects("pod", "a"), []ingress{{From: []peer{{PodSelector: selects("pod", "b")}}}}, nil),
				policyFor("out", selects("pod", "b"), nil, []egress{{Ports: []portOf{numbered(v1.ProtocolTCP, 80)}}}),
			},
			denied: func(p probe) bool {
				return p.to == "x/a" && p.from != "x/b" || p.from == "x/b" && (p.port != 80 || p.protocol != forward.TCP)
			},
		},
		{
			name:     "a pod's labels change",
			policies: []*networkingv1.NetworkPolicy{policyFor("p", web, []ingress{{From: []peer{{NamespaceSelector: everyone, PodSelector: selects("pod", "b")}}}}, nil)},
			labels:   map[string]map[string]string{"y/b": {"pod": "other"}, "z/c": {"pod": "b"}, "x/c": {"pod": "a"}},
			denied:   func(p probe) bool { return one(p.to, "x/a", "x/c") && !one(p.from, "x/b", "z/b", "z/c") },
		},
		{
			name:       "a namespace's labels change",
			policies:   []*networkingv1.NetworkPolicy{policyFor("p", web, []ingress{{From: []peer{{NamespaceSelector: selects("ns", "y")}}}}, nil)},
			namespaces: map[string]map[string]string{"y": {"ns": "other"}, "z": {"ns": "y"}},
			denied:     intoX("a", func(p probe) bool { return p.from[:1] == "z" }),
		},
	}
}

// newIsolation runs one over a bed, with the model in it.
func newIsolation(t *testing.T, b *bed) *Isolation {
	t.Helper()
	i := New(Config{Client: apitest.New(nil), Kernel: b.kernel, Node: "n1", Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = i.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return i
}

// play makes a step of it, and waits until the kernel has it.
func (i *Isolation) play(t *testing.T, now *step, before *step) {
	t.Helper()
	for _, p := range before.policies {
		i.change(func(s *state) { s.book.PutPolicy(types.NamespacedName{Namespace: p.Namespace, Name: p.Name}, nil) })
	}
	for n := range model {
		p := modelPod(n)
		if has, other := now.labels[model[n]]; other {
			p.Labels = has
		}
		i.Set(p)
	}
	for _, name := range []string{"x", "y", "z"} {
		has := now.namespaces[name]
		if has == nil {
			has = map[string]string{"ns": name}
		}
		i.change(func(s *state) { s.book.PutNamespace(name, has, true) })
	}
	for _, p := range now.policies {
		i.change(func(s *state) { s.book.PutPolicy(types.NamespacedName{Namespace: p.Namespace, Name: p.Name}, p) })
	}
	if err := i.await(t.Context(), func(*state) {}); err != nil {
		t.Fatal(err)
	}
}

// TestTruthTables: each pod to each other, by each port, protocol and family, with
// packets.
func TestTruthTables(t *testing.T) {
	b := newBed(t, len(model))
	i := newIsolation(t, b)
	for n := range model {
		p := modelPod(n)
		i.Adopt(p, model[n]+"-0", []netip.Addr{address(n), address6(n)})
	}
	last := step{}
	for _, now := range steps() {
		i.play(t, &now, &last)
		last = now
		for from := range model {
			for to := range model {
				b.square(t, &now, from, to)
			}
		}
	}
}

func (b *bed) square(t *testing.T, now *step, from, to int) {
	t.Helper()
	for _, protocol := range []forward.Protocol{forward.TCP, forward.UDP, forward.SCTP} {
		for _, port := range []uint16{80, 81} {
			p := probe{model[from], model[to], port, protocol}
			at := address(to)
			if (from+to+int(port))%2 == 0 { // both families, each square by one
				at = address6(to)
			}
			want := from == to || !now.denied(p)
			if got := b.passes(t, from, to, netip.AddrPortFrom(at, port), protocol); got != want {
				t.Errorf("%s: %s to %s (%s) port %d protocol %d passes: %v, want %v", now.name, p.from, p.to, at, p.port, p.protocol, got, want)
			}
		}
	}
}
