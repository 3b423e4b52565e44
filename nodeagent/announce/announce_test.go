package announce

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/berth-dev/berth/host/polltest"
	"github.com/berth-dev/berth/nodeagent/catalog"
	"github.com/berth-dev/berth/nodeagent/network/netnstest"
	"github.com/berth-dev/berth/nodeagent/service"
)

// TestMain runs the tests in a network of their own, which is the machine that
// announces.
func TestMain(m *testing.M) { netnstest.Main(m) }

// neighbour is a machine on the link.
type neighbour struct{ netnstest.NS }

func ip(t *testing.T, line string) {
	t.Helper()
	if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v: %s", line, err, out)
	}
}

// finds asks who has an address, and waits for that to be want: a hardware address,
// or nobody.
func (n neighbour) finds(t *testing.T, at, want string) {
	t.Helper()
	var got string
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		n.Within(func() {
			c, err := net.Dial("udp", net.JoinHostPort(at, "9"))
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("anybody?")) // it fails where the last one met nobody
			_ = c.Close()
		})
		got = n.Run(t, "ip neigh show "+at)
		if want == "" && strings.Contains(got, "FAILED") || want != "" && strings.Contains(got, want) {
			return
		}
		if want == "" && strings.Contains(got, "lladdr") { // what it knew it asks for again
			n.Run(t, "ip neigh flush all")
		}
	}
	t.Fatalf("%s is at %q, want %q", at, got, want)
}

func balanced(name, by string, addresses ...string) *v1.Service {
	s := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Annotations: map[string]string{service.AnnouncedBy: by}}, Spec: v1.ServiceSpec{Type: v1.ServiceTypeLoadBalancer}}
	for _, a := range addresses {
		s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, v1.LoadBalancerIngress{IP: a})
	}
	return s
}

func TestAddressesAreAnnounced(t *testing.T) {
	n := neighbour{netnstest.New(t)}
	netnstest.Uplink(t, "uplink", n.NS, "eth0")
	for _, line := range []string{"address add 192.0.2.1/24 dev uplink", "address add 2001:db8::1/64 dev uplink nodad", "link set uplink up"} {
		ip(t, line)
	}
	for _, line := range []string{
		"address add 192.0.2.2/24 dev eth0", "address add 2001:db8::2/64 dev eth0 nodad",
		"route add 198.51.100.0/24 dev eth0", // a pool of another network, on this link all the same
	} {
		n.Run(t, "ip "+line)
	}
	for _, family := range []string{"ipv4", "ipv6"} { // asks again sooner than after a second
		n.Sysctl(t, "net/"+family+"/neigh/eth0/retrans_time_ms", "100")
	}
	uplink, err := net.InterfaceByName("uplink")
	if err != nil {
		t.Fatal(err)
	}
	here := uplink.HardwareAddr.String()

	client := fake.NewClientset(
		balanced("a", "this", "192.0.2.100", "2001:db8::100"), balanced("b", "this", "198.51.100.1"), balanced("c", "other", "192.0.2.101", "2001:db8::101"),
	)
	// Duplicate address detection of the link-local address takes a second or two.
	log := slog.New(slog.DiscardHandler)
	var held atomic.Bool
	held.Store(true)
	services := catalog.New(client)
	a := New(Config{Catalog: services, Node: "this", Own: netip.MustParseAddr("192.0.2.1"), Held: held.Load, Log: log})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() { ended <- services.Run(ctx) }()
	go func() { ended <- a.Run(ctx) }()
	defer func() { cancel(); <-ended; <-ended }()

	for _, at := range []string{"192.0.2.100", "2001:db8::100", "198.51.100.1"} {
		n.finds(t, at, here)
	}
	for _, at := range []string{"192.0.2.101", "2001:db8::101"} {
		n.finds(t, at, "")
	}
	// One that moves here is told: who had it of another learns where it is.
	for _, at := range []string{"192.0.2.101", "2001:db8::101"} {
		n.Run(t, "ip neigh replace "+at+" lladdr 02:00:00:00:00:01 dev eth0 nud stale")
	}
	update := func(s *v1.Service) {
		t.Helper()
		if _, err := client.CoreV1().Services("ns").Update(t.Context(), s, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	update(balanced("c", "this", "192.0.2.101", "2001:db8::101"))
	for _, at := range []string{"192.0.2.101", "2001:db8::101"} {
		n.learns(t, at, here)
	}
	// One that moves away is not answered any more, the others are.
	update(balanced("a", "other", "192.0.2.100", "2001:db8::100"))
	for _, at := range []string{"192.0.2.100", "2001:db8::100"} {
		n.finds(t, at, "")
	}
	n.finds(t, "192.0.2.101", here)
	// A node that cannot renew its Lease is taken for dead by the host.
	held.Store(false)
	n.finds(t, "192.0.2.101", "")
	n.finds(t, "2001:db8::101", "")
	held.Store(true)
	n.finds(t, "192.0.2.101", here)
	n.finds(t, "2001:db8::101", here)
	// A link that was down for a moment is answered on again. By now nothing is told
	// unasked any more.
	polltest.Pass((times + 1) * repeat)
	for _, line := range []string{"link set uplink down", "link set uplink up", "address replace 2001:db8::1/64 dev uplink nodad"} {
		ip(t, line)
	}
	for _, at := range []string{"192.0.2.101", "2001:db8::101"} {
		n.Run(t, "ip neigh flush all")
		n.finds(t, at, here)
	}
}

// learns waits until the neighbour knows an address, without asking for it.
func (n neighbour) learns(t *testing.T, at, want string) {
	t.Helper()
	var got string
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		if got = n.Run(t, "ip neigh show "+at); strings.Contains(got, want) {
			return
		}
	}
	t.Fatalf("%s is at %q, want %q", at, got, want)
}

func TestTheLinkOfAnAddress(t *testing.T) {
	t.Parallel()
	network := func(texts ...string) *place {
		p := &place{}
		for _, text := range texts {
			p.networks = append(p.networks, netip.MustParsePrefix(text))
		}
		return p
	}
	places := map[int]*place{
		2: network("192.0.2.1/24", "fe80::1/64"), 3: network("10.0.0.1/8", "2001:db8::1/64"), 4: network("172.16.0.1/16"),
		5: network("10.9.0.1/16", "2001:db8::9:1/112"), 6: network("10.0.0.7/7"),
	}
	own := netip.MustParseAddr("10.0.0.1")
	for _, c := range []struct {
		at    string
		index int
		ok    bool
	}{
		{"192.0.2.9", 2, true}, {"172.16.9.9", 4, true}, {"2001:db8::9", 3, true},
		{"10.9.0.9", 5, true}, {"2001:db8::9:9", 5, true}, {"10.8.0.9", 3, true}, // the smallest network's
		{"198.51.100.1", 3, true}, // by the node's own
		{"2001:db8:1::1", 3, true},
	} {
		if index, ok := choose(places, netip.MustParseAddr(c.at), own); index != c.index || ok != c.ok {
			t.Errorf("%s is told on link %d, %v, want %d", c.at, index, ok, c.index)
		}
	}
	if _, ok := choose(map[int]*place{4: network("172.16.0.1/16")}, netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("172.16.0.1")); ok {
		t.Error("an address of IPv6 is told on a link without any")
	}
}
