package dns

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func service(name string, ips []string, ports ...v1.ServicePort) *v1.Service {
	s := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	s.Spec.ClusterIPs, s.Spec.Ports, s.Spec.Type = ips, ports, v1.ServiceTypeClusterIP
	if len(ips) > 0 {
		s.Spec.ClusterIP = ips[0]
	}
	return s
}

func port(name string, protocol v1.Protocol, number int32) v1.ServicePort {
	return v1.ServicePort{Name: name, Protocol: protocol, Port: number}
}

func external(name, target string) *v1.Service {
	s := service(name, nil)
	s.Spec.Type, s.Spec.ExternalName = v1.ServiceTypeExternalName, target
	return s
}

// endpoint is an address, or host=address; one that begins with ! is not ready.
func slice(name, of string, ports []discoveryv1.EndpointPort, endpoints ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: of},
	}, Ports: ports, AddressType: discoveryv1.AddressTypeIPv4}
	for _, text := range endpoints {
		text, unready := strings.CutPrefix(text, "!")
		end := discoveryv1.Endpoint{Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(!unready)}}
		if host, address, ok := strings.Cut(text, "="); ok {
			end.Hostname, text = &host, address
		}
		end.Addresses = []string{text}
		if strings.Contains(text, ":") {
			s.AddressType = discoveryv1.AddressTypeIPv6
		}
		s.Endpoints = append(s.Endpoints, end)
	}
	return s
}

func ports(name string, number int32) []discoveryv1.EndpointPort {
	return []discoveryv1.EndpointPort{{Name: &name, Port: &number, Protocol: ptr.To(v1.ProtocolTCP)}}
}

// example is a cluster with the names of the specification's examples.
func example(t testing.TB) zone {
	t.Helper()
	x, err := NewIndex("cluster.local", netip.MustParseAddr("10.96.0.10"), netip.MustParseAddr("fd00::a"))
	if err != nil {
		t.Fatal(err)
	}
	x.SetService(service("kubernetes", []string{"10.3.0.1"}, port("https", v1.ProtocolTCP, 443)))
	x.SetService(service("both", []string{"10.3.0.2", "fd00::2"}, port("dns", v1.ProtocolUDP, 53), port("", v1.ProtocolTCP, 80)))
	x.SetService(service("headless", []string{v1.ClusterIPNone}))
	x.SetSlice(slice("headless-1", "headless", ports("https", 443), "my-pet=10.3.0.100", "My-Pet-2=10.3.0.101"))
	x.SetSlice(slice("headless-2", "headless", ports("https", 443), "10.3.0.102", "!10.3.0.103"))
	x.SetSlice(slice("headless-3", "headless", ports("https", 443), "my-pet=fd00::100"))
	x.SetService(service("empty", []string{v1.ClusterIPNone}))
	x.SetSlice(slice("empty-1", "empty", nil, "!10.3.0.110"))
	early := service("early", []string{v1.ClusterIPNone})
	early.Spec.PublishNotReadyAddresses = true
	x.SetSlice(slice("early-1", "early", nil, "!10.3.0.120"))
	x.SetService(early)
	x.SetService(external("foo", "www.example.com"))
	return zone{x, []netip.Prefix{netip.MustParsePrefix("10.3.0.0/16")}}
}

// ask gives the answer's code, AA and TC, and its records, sorted.
func (z *zone) ask(t testing.TB, name string, qtype uint16, change func(*dns.Msg)) (*dns.Msg, outcome) {
	t.Helper()
	m := new(dns.Msg).SetQuestion(name, qtype)
	if change != nil {
		change(m)
	}
	wire, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	var q query
	if rcode, err := q.parse(wire, false); rcode != 0 || err != nil {
		t.Fatalf("%s: parse: %d, %v", name, rcode, err)
	}
	reply, what := z.answer(nil, &q)
	if what == elsewhere {
		return nil, what
	}
	got := new(dns.Msg)
	if err := got.Unpack(reply); err != nil {
		t.Fatalf("%s: the answer cannot be read: %v: %x", name, err, reply)
	}
	if got.Id != m.Id || !got.Response || !got.Authoritative || !got.RecursionAvailable || len(got.Question) != 1 || got.Question[0] != m.Question[0] {
		t.Errorf("%s: header %+v", name, got)
	}
	return got, what
}

func told(m *dns.Msg) []string {
	if m == nil {
		return []string{"elsewhere"}
	}
	var out []string
	for _, r := range m.Answer {
		out = append(out, strings.Join(strings.Fields(r.String()), " "))
	}
	slices.Sort(out)
	switch {
	case m.Rcode != 0:
		out = append(out, dns.RcodeToString[m.Rcode])
	case len(out) == 0:
		out = append(out, "NODATA")
	}
	if len(m.Answer) == 0 {
		if len(m.Ns) != 1 || m.Ns[0].Header().Rrtype != dns.TypeSOA || m.Ns[0].Header().Ttl != ttl {
			out = append(out, fmt.Sprint("without SOA: ", m.Ns))
		}
	}
	return out
}

// TestSpecification follows https://github.com/kubernetes/dns, specification 1.1.0,
// section by section, and what CoreDNS answers where it leaves things open.
func TestSpecification(t *testing.T) {
	t.Parallel()
	z := example(t)
	const below = ".default.svc.cluster.local."
	tests := []struct {
		what, name string
		qtype      uint16
		want       []string
	}{
		{"2.2 version", "dns-version.cluster.local.", dns.TypeTXT, []string{`dns-version.cluster.local. 5 IN TXT "1.1.0"`}},
		{"2.3.1 A of a ClusterIP", "kubernetes" + below, dns.TypeA, []string{"kubernetes" + below + " 5 IN A 10.3.0.1"}},
		{"names are one in any case, and the asked one is kept", "KuberNetes.Default.Svc.cluster.local.", dns.TypeA, []string{"KuberNetes.Default.Svc.cluster.local. 5 IN A 10.3.0.1"}},
		{"2.3.1 AAAA", "both" + below, dns.TypeAAAA, []string{"both" + below + " 5 IN AAAA fd00::2"}},
		{"a name without records of the type", "kubernetes" + below, dns.TypeAAAA, []string{"NODATA"}},
		{"nor of an unknown type", "kubernetes" + below, 65280, []string{"NODATA"}},
		{"2.3.2 SRV", "_https._tcp.kubernetes" + below, dns.TypeSRV, []string{"_https._tcp.kubernetes" + below + " 5 IN SRV 0 100 443 kubernetes" + below}},
		{"2.3.2 SRV of UDP", "_dns._udp.both" + below, dns.TypeSRV, []string{"_dns._udp.both" + below + " 5 IN SRV 0 100 53 both" + below}},
		{"no SRV of another protocol", "_dns._tcp.both" + below, dns.TypeSRV, []string{"NXDOMAIN"}},
		{"a protocol has names below", "_udp.both" + below, dns.TypeSRV, []string{"NODATA"}},
		{"or not: unnamed ports have none", "_tcp.both" + below, dns.TypeSRV, []string{"NXDOMAIN"}},
		{"an SRV's name has no address", "_https._tcp.kubernetes" + below, dns.TypeA, []string{"NODATA"}},
		{"2.3.3 PTR", "1.0.3.10.in-addr.arpa.", dns.TypePTR, []string{"1.0.3.10.in-addr.arpa. 5 IN PTR kubernetes" + below}},
		{"2.3.3 PTR of IPv6", "2.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa.", dns.TypePTR,
			[]string{"2.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa. 5 IN PTR both" + below}},
		{"an address's name has no A", "1.0.3.10.in-addr.arpa.", dns.TypeA, []string{"NODATA"}},
		{"an address of the cluster that nobody has", "9.9.3.10.in-addr.arpa.", dns.TypePTR, []string{"NXDOMAIN"}},
		{"an address of others", "8.8.8.8.in-addr.arpa.", dns.TypePTR, []string{"elsewhere"}},
		{"a part of an address", "3.10.in-addr.arpa.", dns.TypePTR, []string{"elsewhere"}},
		{"no address", "01.0.3.10.in-addr.arpa.", dns.TypePTR, []string{"elsewhere"}},
		{"2.4.1 A of a headless service", "headless" + below, dns.TypeA, []string{
			"headless" + below + " 5 IN A 10.3.0.100", "headless" + below + " 5 IN A 10.3.0.101", "headless" + below + " 5 IN A 10.3.0.102",
		}},
		{"2.4.1 AAAA", "headless" + below, dns.TypeAAAA, []string{"headless" + below + " 5 IN AAAA fd00::100"}},
		{"2.4.1 by hostname", "my-pet.headless" + below, dns.TypeA, []string{"my-pet.headless" + below + " 5 IN A 10.3.0.100"}},
		{"2.4.1 by hostname, of IPv6", "my-pet.headless" + below, dns.TypeAAAA, []string{"my-pet.headless" + below + " 5 IN AAAA fd00::100"}},
		{"2.4.1 by the name that it is given", "10-3-0-102.headless" + below, dns.TypeA, []string{"10-3-0-102.headless" + below + " 5 IN A 10.3.0.102"}},
		{"2.4.1 not ready", "10-3-0-103.headless" + below, dns.TypeA, []string{"NXDOMAIN"}},
		{"2.4.1 nobody is ready", "empty" + below, dns.TypeA, []string{"NXDOMAIN"}},
		{"published before they are ready", "early" + below, dns.TypeA, []string{"early" + below + " 5 IN A 10.3.0.120"}},
		{"2.4.2 SRV", "_https._tcp.headless" + below, dns.TypeSRV, []string{
			"_https._tcp.headless" + below + " 5 IN SRV 0 33 443 10-3-0-102.headless" + below,
			"_https._tcp.headless" + below + " 5 IN SRV 0 33 443 my-pet-2.headless" + below,
			"_https._tcp.headless" + below + " 5 IN SRV 0 33 443 my-pet.headless" + below,
		}},
		{"2.4.3 PTR", "100.0.3.10.in-addr.arpa.", dns.TypePTR, []string{"100.0.3.10.in-addr.arpa. 5 IN PTR my-pet.headless" + below}},
		{"2.4.3 PTR, not ready", "103.0.3.10.in-addr.arpa.", dns.TypePTR, []string{"NXDOMAIN"}},
		{"2.5 CNAME", "foo" + below, dns.TypeCNAME, []string{"foo" + below + " 5 IN CNAME www.example.com."}},
		{"2.6 an address's name below pod", "1-2-3-4.anywhere.pod.cluster.local.", dns.TypeA, []string{"1-2-3-4.anywhere.pod.cluster.local. 5 IN A 1.2.3.4"}},
		{"2.6 of IPv6", "fd00--1.default.pod.cluster.local.", dns.TypeAAAA, []string{"fd00--1.default.pod.cluster.local. 5 IN AAAA fd00::1"}},
		{"2.6 without one of the other family", "1-2-3-4.default.pod.cluster.local.", dns.TypeAAAA, []string{"NODATA"}},
		{"2.6 no address", "1-2-3-400.default.pod.cluster.local.", dns.TypeA, []string{"NXDOMAIN"}},
		{"no service", "none" + below, dns.TypeA, []string{"NXDOMAIN"}},
		{"no namespace", "kubernetes.none.svc.cluster.local.", dns.TypeA, []string{"NXDOMAIN"}},
		{"a namespace", "default.svc.cluster.local.", dns.TypeA, []string{"NODATA"}},
		{"another", "none.svc.cluster.local.", dns.TypeA, []string{"NXDOMAIN"}},
		{"all namespaces", "svc.cluster.local.", dns.TypeA, []string{"NODATA"}},
		{"below a service", "a.kubernetes" + below, dns.TypeA, []string{"NXDOMAIN"}},
		{"the domain", "cluster.local.", dns.TypeA, []string{"NODATA"}},
		{"its SOA", "cluster.local.", dns.TypeSOA, []string{"cluster.local. 5 IN SOA ns.dns.cluster.local. hostmaster.cluster.local. 10 7200 1800 86400 5"}},
		{"its name server", "cluster.local.", dns.TypeNS, []string{"cluster.local. 5 IN NS ns.dns.cluster.local."}},
		{"whose address is the server's", "ns.dns.cluster.local.", dns.TypeA, []string{"ns.dns.cluster.local. 5 IN A 10.96.0.10"}},
		{"a name that ends alike", "evilcluster.local.", dns.TypeA, []string{"elsewhere"}},
		{"a label that looks like the domain", `x\007cluster.local.`, dns.TypeA, []string{"elsewhere"}},
		{"above the domain", "local.", dns.TypeA, []string{"elsewhere"}},
		{"the root", ".", dns.TypeNS, []string{"elsewhere"}},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			m, _ := z.ask(t, tt.name, tt.qtype, nil)
			if diff := cmp.Diff(tt.want, told(m)); diff != "" {
				t.Errorf("%s %s differs (-want +got):\n%s", tt.name, dns.TypeToString[tt.qtype], diff)
			}
		})
	}
}

func TestTargetsOfServicesCome(t *testing.T) {
	t.Parallel()
	z := example(t)
	m, _ := z.ask(t, "_https._tcp.headless.default.svc.cluster.local.", dns.TypeSRV, func(m *dns.Msg) { m.SetEdns0(1232, false) })
	var got []string
	for _, r := range m.Extra {
		if r.Header().Rrtype != dns.TypeOPT {
			got = append(got, strings.Join(strings.Fields(r.String()), " "))
		}
	}
	slices.Sort(got)
	want := []string{
		"10-3-0-102.headless.default.svc.cluster.local. 5 IN A 10.3.0.102",
		"my-pet-2.headless.default.svc.cluster.local. 5 IN A 10.3.0.101",
		"my-pet.headless.default.svc.cluster.local. 5 IN A 10.3.0.100",
		"my-pet.headless.default.svc.cluster.local. 5 IN AAAA fd00::100",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("additional records differ (-want +got):\n%s", diff)
	}
	if o := m.IsEdns0(); o == nil || o.UDPSize() != 1232 {
		t.Errorf("OPT = %v", o)
	}
}

// TestChanges walks one cluster through changes, and asks after each.
func TestChanges(t *testing.T) {
	t.Parallel()
	x, err := NewIndex("cluster.local")
	if err != nil {
		t.Fatal(err)
	}
	z := zone{Index: x}
	empty := x.size()
	steps := []struct {
		what   string
		change func()
		name   string
		qtype  uint16
		want   string
	}{
		{"a slice before its service", func() { x.SetSlice(slice("s", "web", ports("http", 80), "a=10.0.0.1", "b=10.0.0.2")) }, "web", dns.TypeA, "NXDOMAIN"},
		{"the service", func() { x.SetService(service("web", []string{"None"})) }, "web", dns.TypeA, "10.0.0.1 10.0.0.2"},
		{"one endpoint goes", func() { x.SetSlice(slice("s", "web", ports("http", 80), "a=10.0.0.1")) }, "web", dns.TypeA, "10.0.0.1"},
		{"its name too", func() {}, "b.web", dns.TypeA, "NXDOMAIN"},
		{"one of the other family", func() { x.SetSlice(slice("s6", "web", nil, "a=fd00::1")) }, "a.web", dns.TypeAAAA, "fd00::1"},
		{"a second service with that endpoint", func() {
			x.SetService(service("other", []string{"None"}))
			x.SetSlice(slice("o", "other", nil, "a=10.0.0.1"))
		}, "1.0.0.10.in-addr.arpa.", dns.TypePTR, "a.other.default.svc.cluster.local. a.web.default.svc.cluster.local."},
		{"the first goes", func() { x.DeleteService("default", "web") }, "1.0.0.10.in-addr.arpa.", dns.TypePTR, "a.other.default.svc.cluster.local."},
		{"its names went", func() {}, "a.web", dns.TypeA, "NXDOMAIN"},
		{"it comes back as another kind", func() { x.SetService(external("web", "example.com")) }, "web", dns.TypeCNAME, "example.com."},
		{"and as another", func() { x.SetService(service("web", []string{"10.1.0.1"}, port("http", v1.ProtocolTCP, 80))) }, "web", dns.TypeA, "10.1.0.1"},
		{"its port", func() {}, "_http._tcp.web", dns.TypeSRV, "0 100 80 web.default.svc.cluster.local."},
		{"and loses it", func() { x.SetService(service("web", []string{"10.1.0.1"})) }, "_http._tcp.web", dns.TypeSRV, "NXDOMAIN"},
		{"its slices go: it does not care", func() {
			x.DeleteSlice(slice("s", "web", nil))
			x.DeleteSlice(slice("s6", "web", nil))
		}, "web", dns.TypeA, "10.1.0.1"},
		{"a slice of nobody", func() { x.SetSlice(slice("n", "", nil, "10.0.0.9")) }, "web", dns.TypeA, "10.1.0.1"},
		{"a slice of names", func() {
			s := slice("f", "other", nil, "example.com")
			s.AddressType = discoveryv1.AddressTypeFQDN
			x.SetSlice(s)
		}, "other", dns.TypeA, "10.0.0.1"},
		{"nonsense in a slice", func() {
			x.SetSlice(slice("o", "other", []discoveryv1.EndpointPort{{}, {Name: ptr.To(strings.Repeat("x", 70)), Port: ptr.To(int32(0))}},
				"a=10.0.0.1", "b=no address", strings.Repeat("h", 64)+"=10.0.0.3", "a=10.0.0.1"))
		}, "other", dns.TypeA, "10.0.0.1"},
		{"all go", func() {
			x.DeleteService("default", "web")
			x.DeleteService("default", "other")
			x.DeleteService("default", "never was")
			x.DeleteSlice(slice("o", "other", nil))
		}, "other", dns.TypeA, "NXDOMAIN"},
	}
	for _, step := range steps {
		step.change()
		name := step.name
		if !strings.HasSuffix(name, ".") {
			name += ".default.svc.cluster.local."
		}
		m, _ := z.ask(t, name, step.qtype, nil)
		var got []string
		if m == nil || m.Rcode != 0 {
			got = []string{"NXDOMAIN"}
		} else {
			for _, r := range m.Answer {
				got = append(got, strings.Join(strings.Fields(r.String())[4:], " "))
			}
		}
		slices.Sort(got)
		if text := strings.Join(got, " "); text != step.want {
			t.Errorf("%s: %s is %q, want %q", step.what, name, text, step.want)
		}
	}
	if left := x.size(); left != empty || len(x.slices)+len(x.services)+len(x.owns)+len(x.namespaces) != 0 {
		t.Errorf("left: %d names (%d at first), %v %v %v %v", left, empty, x.slices, x.services, x.owns, x.namespaces)
	}
}

// TestLargeAnswers are cut at whole records, and say so.
func TestLargeAnswers(t *testing.T) {
	t.Parallel()
	x, err := NewIndex("cluster.local")
	if err != nil {
		t.Fatal(err)
	}
	z := zone{Index: x}
	var all []string
	for i := range 100 {
		all = append(all, fmt.Sprintf("host-%d=10.0.1.%d", i, i))
	}
	x.SetSlice(slice("s", "many", ports("http", 80), all...))
	x.SetService(service("many", []string{"None"}))
	for _, tt := range []struct {
		name  string
		qtype uint16
		size  uint16
		n     int
		tc    bool
	}{
		{"many", dns.TypeA, 0, 28, true},
		{"many", dns.TypeA, 1232, 72, true},
		{"many", dns.TypeA, 100, 28, true}, // 512 is the least
		{"many", dns.TypeA, 65535, 72, true},
		{"_http._tcp.many", dns.TypeSRV, 0, 8, true},
		{"host-7.many", dns.TypeA, 0, 1, false},
	} {
		m, _ := z.ask(t, tt.name+".default.svc.cluster.local.", tt.qtype, func(m *dns.Msg) {
			if tt.size > 0 {
				m.SetEdns0(tt.size, false)
			}
		})
		limit := min(max(int(tt.size), 512), bestUDP)
		m.Compress = false
		if wire, err := m.Pack(); len(m.Answer) == 0 || m.Truncated != tt.tc || err != nil || tt.n > 0 && len(m.Answer) < tt.n-1 || len(m.Answer) > tt.n+1 {
			t.Errorf("%s %d: %d answers, truncated %v, of %d (%d), %v; want %d, %v", tt.name, tt.size, len(m.Answer), m.Truncated, limit, len(wire), err, tt.n, tt.tc)
		}
	}
}

func TestOrderIsRandom(t *testing.T) {
	t.Parallel()
	z := example(t)
	first := map[string]bool{}
	for range 200 {
		m, _ := z.ask(t, "headless.default.svc.cluster.local.", dns.TypeA, nil)
		first[m.Answer[0].String()] = true
	}
	if len(first) != 3 {
		t.Errorf("came first: %v, want each of 3", first)
	}
}
