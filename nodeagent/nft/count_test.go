package nft

import (
	"maps"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/nodeagent/forward"
)

// TestConnectionsAreCounted: each once, whichever way it takes, while backends
// change and after a restart.
func TestConnectionsAreCounted(t *testing.T) {
	t.Parallel()
	n := newNode(t, 3)
	six := netip.MustParseAddr("fd00:96::1")
	fronts := func(backend int) map[forward.Front]*forward.Entry {
		return map[forward.Front]*forward.Entry{
			tcp(vip, 80):    {Inside: to(backend)},
			tcp(vip, 30000): {Inside: to(backend)}, // the number of a node port
			tcp(vip, 81):    {Inside: forward.Target{Verdict: forward.Reject}},
			tcp(vip, 82):    {Inside: to(backend)},
			tcp(six, 80):    {Inside: forward.Target{Backends: []netip.AddrPort{netip.AddrPortFrom(podIP6(backend), 80)}}},
			nodePort(30000): {Inside: always(to(backend))},
			nodePort(30001): {Inside: to(backend), Outside: &forward.Target{Backends: to(backend).Backends, KeepSource: true}},
		}
	}
	want := map[forward.Front]uint64{
		tcp(vip, 80): 4, tcp(vip, 30000): 2, tcp(vip, 81): 2, tcp(vip, 82): 0, tcp(six, 80): 2, nodePort(30000): 4, nodePort(30001): 4,
	}
	for i := 1; i < 3; i++ { // what comes before neighbours are known is asked twice
		if _, _, err := n.pods[0].ask(netip.AddrPortFrom(podIP6(i), 80).String()); err != nil {
			t.Fatal(err)
		}
	}
	for round := range uint64(2) {
		n.must(t, change(fronts(1+int(round))), round == 0)
		for _, ask := range []struct {
			from machine
			to   string
		}{
			{n.pods[0], "10.96.0.1:80"}, {n.machine, "10.96.0.1:80"}, {n.pods[0], "10.96.0.1:30000"}, {n.pods[0], "[fd00:96::1]:80"},
			{n.outside, nodeIP + ":30000"}, {n.pods[0], nodeIP + ":30000"}, {n.outside, nodeIP + ":30001"}, {n.machine, "127.0.0.1:30001"},
		} {
			if _, _, err := ask.from.ask(ask.to); err != nil {
				t.Fatalf("%s: %v", ask.to, err)
			}
		}
		refused(t, n.pods[0], "10.96.0.1:81")
		got, err := n.Connections()
		if err != nil {
			t.Fatal(err)
		}
		now := maps.Clone(want)
		for front := range now {
			now[front] = now[front] / 2 * (round + 1)
		}
		if diff := cmp.Diff(now, got, cmp.Comparer(func(a, b forward.Front) bool { return a == b })); diff != "" {
			t.Errorf("in round %d (-want +got):\n%s", round, diff)
		}
		n.open(t)
		n.must(t, change(fronts(1+int(round))), true)
	}
	if err := n.Pin("pod", map[forward.Front]*forward.Entry{nodePort(30000): {Inside: always(to(0))}}); err != nil {
		t.Fatal(err)
	}
	got, err := n.Connections()
	if err != nil {
		t.Fatal(err)
	}
	if count, told := got[nodePort(30000)]; told {
		t.Errorf("%d connections to a pod's own port are told of the Service that it hides", count)
	}
}
