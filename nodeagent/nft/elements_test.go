package nft

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/nodeagent/forward"
)

// TestListed: people look by nft what is there.
func TestListed(t *testing.T) {
	t.Parallel()
	n := newNode(t, 3)
	n.tunnels = []string{"berth.1"}
	n.open(t)
	sticky := to(0, 1)
	sticky.Affinity, sticky.Group = 3*time.Hour, "default/web"
	n.must(t, change(map[forward.Front]*forward.Entry{
		tcp(vip, 80):    {Inside: to(0, 1)},
		tcp(vip, 81):    {Inside: sticky},
		nodePort(30000): {Inside: always(to(0, 1, 2)), Outside: &forward.Target{Backends: to(2).Backends, KeepSource: true}},
		tcp(vip, 83):    {Inside: to(2), Sources: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}},
	}), true)
	text := n.Run(t, "nft list ruleset ip")
	for _, want := range []string{
		"10.96.0.1 . tcp . 80 : goto n2",
		"10.96.0.1 . tcp . 80 . 0x00000001 : 10.99.1.11 . 80",
		"dnat ip to ip daddr . meta l4proto . th dport . numgen random mod 2 map @backends",
		"tcp . 30000 : goto pm3", "tcp . 30000 : goto pl1",
		"dnat ip to meta l4proto . th dport . numgen random mod 3 map @nodeport-backends",
		"numgen random mod 2 vmap { 0 : goto e-",
		"timeout 3h", "update @s-", "dnat to 10.99.1.10:80",
		"ip saddr 192.0.2.0/24 return", ": jump f-",
		`oifname "berth.1" tcp flags syn / syn,rst tcp option maxseg size set rt mtu`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("nft does not list %q", want)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

// TestManyBackends: more than a transaction has, and to none again.
func TestManyBackends(t *testing.T) {
	t.Parallel()
	n := newNode(t, 1)
	many := forward.Target{}
	for i := range 65536 {
		many.Backends = append(many.Backends, netip.AddrPortFrom(podIP(0), uint16(i)|1))
	}
	n.must(t, change(map[forward.Front]*forward.Entry{tcp(vip, 80): {Inside: many}}), true)
	many.Backends = to(0).Backends
	n.must(t, change(map[forward.Front]*forward.Entry{tcp(vip, 80): {Inside: many}}), false)
	sees(t, n.pods[0], "10.96.0.1:80", bridgeIP, podIP(0).String())
	if err := n.Apply(forward.Change{Fronts: map[forward.Front]*forward.Entry{tcp(vip, 80): nil}}, false); err != nil {
		t.Fatal(err)
	}
	if text := n.Run(t, "nft list map ip berth-berth0 backends"); strings.Contains(text, "elements") {
		t.Errorf("left over: %.500s", text)
	}
}
