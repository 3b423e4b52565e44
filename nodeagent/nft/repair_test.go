package nft

import (
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berth-dev/berth/nodeagent/forward"
)

func TestAnotherProcessFindsAllAsItIs(t *testing.T) {
	t.Parallel()
	n := newNode(t, 3)
	sticky := to(0, 1)
	sticky.Affinity, sticky.Group = time.Hour, "default/web"
	all := func() forward.Change {
		return change(map[forward.Front]*forward.Entry{
			tcp(vip, 80):    {Inside: to(0, 1, 2)},
			tcp(vip, 81):    {Inside: sticky},
			nodePort(30000): {Inside: always(to(0, 1)), Outside: &forward.Target{Backends: to(2).Backends, KeepSource: true}},
			tcp(vip, 82):    {Inside: forward.Target{Verdict: forward.Reject}},
			tcp(vip, 83):    {Inside: to(2), Sources: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}},
			tcp(netip.MustParseAddr("fd00:96::1"), 80): {Inside: forward.Target{Backends: []netip.AddrPort{netip.AddrPortFrom(podIP6(0), 80)}}},
		})
	}
	n.must(t, all(), true)
	before := n.Run(t, "nft list ruleset")
	n.open(t)
	n.must(t, all(), true)
	if err := n.Repair(); err != nil {
		t.Fatal(err)
	}
	if err := n.Repair(); err != nil { // which has nothing to read
		t.Fatal(err)
	}
	n.untouched(t, before)
	// What the first made and is wanted no more goes.
	n.open(t)
	n.must(t, change(map[forward.Front]*forward.Entry{tcp(vip, 80): {Inside: to(0)}}), true)
	sees(t, n.pods[1], "10.96.0.1:80", podIP(1).String(), podIP(0).String())
	refused(t, n.pods[1], "10.96.0.1:81")
	if err := n.Repair(); err != nil {
		t.Fatal(err)
	}
	if text := n.Run(t, "nft list ruleset"); strings.Contains(text, "30000") || strings.Contains(text, "s-") {
		t.Errorf("left over:\n%s", text)
	}
}

func TestRepair(t *testing.T) {
	t.Parallel()
	n := newNode(t, 3)
	n.must(t, change(map[forward.Front]*forward.Entry{tcp(vip, 80): {Inside: to(1, 2)}}), true)
	for _, damage := range []string{
		"nft flush ruleset",
		"nft flush map ip berth-berth0 services",
		"nft delete element ip berth-berth0 services { 10.96.0.1 . tcp . 80 }",
		"nft flush chain ip berth-berth0 services",
		"nft add element ip berth-berth0 virtual { 10.99.1.11 }",
	} {
		n.Run(t, damage)
		if err := n.Repair(); err != nil {
			t.Fatalf("after %s: %v", damage, err)
		}
		sees(t, n.pods[0], "10.96.0.1:80", podIP(0).String(), podIP(1).String(), podIP(2).String())
		sees(t, n.pods[0], podIP(1).String()+":80", podIP(0).String(), podIP(1).String())
	}
	// A change finds the table gone, or elements that are not its own.
	n.Run(t, "nft delete table ip berth-berth0")
	n.must(t, change(map[forward.Front]*forward.Entry{tcp(vip, 81): {Inside: to(1)}}), false)
	sees(t, n.pods[0], "10.96.0.1:81", podIP(0).String(), podIP(1).String())
	sees(t, n.pods[0], "10.96.0.1:80", podIP(0).String(), podIP(1).String(), podIP(2).String())
}

func TestTablesOfOthersSurvive(t *testing.T) {
	t.Parallel()
	n := newNode(t, 1)
	n.Run(t, "nft add table ip kube-proxy")
	n.Run(t, "nft add chain ip kube-proxy services")
	n.Run(t, "nft add rule ip kube-proxy services ip daddr 10.96.0.9 drop")
	want := n.Run(t, "nft list table ip kube-proxy")
	var second *Kernel
	n.Within(func() {
		var err error
		if second, err = Open(Config{Bridge: "berth1", ClusterRanges: podRanges}); err != nil {
			t.Error(err)
		}
	})
	defer second.Close()
	if err := second.Apply(change(map[forward.Front]*forward.Entry{tcp(vip, 99): {Inside: to(0)}}), true); err != nil {
		t.Fatal(err)
	}
	n.must(t, change(map[forward.Front]*forward.Entry{tcp(vip, 80): {Inside: to(0)}}), true)
	if err := n.Repair(); err != nil {
		t.Fatal(err)
	}
	if text := n.Run(t, "nft list table ip berth-berth1"); !strings.Contains(text, "99") {
		t.Errorf("another agent's table: %s", text)
	}
	if err := n.Remove(); err != nil {
		t.Fatal(err)
	}
	if got := n.Run(t, "nft list table ip kube-proxy"); got != want {
		t.Errorf("another's table is now %s", got)
	}
	if text := n.Run(t, "nft list tables"); strings.Contains(text, "berth-berth0") || !strings.Contains(text, "ip6 berth-berth1") {
		t.Errorf("after Remove: %s", text)
	}
}

func TestAnotherLayoutIsReplaced(t *testing.T) {
	t.Parallel()
	n := newNode(t, 1)
	at := map[forward.Front]*forward.Entry{tcp(vip, 80): {Inside: to(0)}}
	n.must(t, change(at), true)
	n.Within(func() {
		k, err := Open(Config{Bridge: "berth0", PodRanges: nodeRanges, ClusterRanges: nodeRanges})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		if err := k.Apply(change(at), true); err != nil {
			t.Fatal(err)
		}
	})
	sees(t, n.pods[0], "10.96.0.1:80", bridgeIP, podIP(0).String())
	if text := n.Run(t, "nft list set ip berth-berth0 pods"); !strings.Contains(text, "10.99.1.0/24") {
		t.Errorf("the ranges are still %s", text)
	}
}

// TestConnectionsGoOnWhileAllChanges: backends come and go, another process takes
// over, and rules are compared; each new connection finds a backend.
func TestConnectionsGoOnWhileAllChanges(t *testing.T) {
	t.Parallel()
	n := newNode(t, 4)
	sets := [][]int{{1, 2, 3}, {2}, {1, 3}, {3, 2}, {1}}
	entries := func(i int) map[forward.Front]*forward.Entry {
		sticky := to(sets[i%len(sets)]...)
		sticky.Affinity, sticky.Group = time.Hour, "default/web"
		return map[forward.Front]*forward.Entry{
			tcp(vip, 80): {Inside: to(sets[i%len(sets)]...)}, tcp(vip, 81): {Inside: sticky}, nodePort(30000): {Inside: always(to(sets[i%len(sets)]...))},
		}
	}
	n.must(t, change(entries(0)), true)
	stop := make(chan struct{})
	var clients sync.WaitGroup
	var made atomic.Int64
	for from, to := range map[machine]string{n.pods[0]: "10.96.0.1:80", n.outside: nodeIP + ":30000", n.machine: "10.96.0.1:81"} {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, _, err := from.ask(to); err != nil {
					t.Errorf("%s: %v", to, err)
				}
				made.Add(1)
			}
		})
	}
	for i := range 40 {
		n.must(t, change(entries(i)), false)
		if i%10 == 5 {
			n.open(t)
			n.must(t, change(entries(i)), true)
			if err := n.Repair(); err != nil {
				t.Error(err)
			}
		}
	}
	for made.Load() < 200 {
		n.must(t, change(entries(int(made.Load()))), false)
	}
	close(stop)
	clients.Wait()
	t.Log(made.Load(), "connections")
}

// untouched checks that a second process found the rules as they were, and left them.
func (n *node) untouched(t *testing.T, before string) {
	t.Helper()
	if n.Sent() != 0 {
		t.Errorf("a second process made %d changes where all was right", n.Sent())
	}
	if after := n.Run(t, "nft list ruleset"); after != before {
		t.Errorf("rules before:\n%s\nafter:\n%s", before, after)
	}
}
