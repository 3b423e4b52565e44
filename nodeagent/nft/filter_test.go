package nft

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/nftables"

	"github.com/berth-dev/berth/nodeagent/forward"
	"github.com/berth-dev/berth/nodeagent/network/netnstest"
)

var (
	tcp80  = []forward.Ports{{Protocol: forward.TCP, First: 80, Last: 80}}
	nobody = &forward.Allowed{}
)

func allow(list ...forward.Allow) *forward.Allowed { return &forward.Allowed{List: list} }

func addresses(pods ...int) (out []forward.Member) {
	for _, i := range pods {
		out = append(out, forward.Member{Addr: podIP(i)}, forward.Member{Addr: podIP6(i)})
	}
	return out
}

func ranges(texts ...string) (out []forward.Range) {
	for _, text := range texts {
		first, last, _ := strings.Cut(text, "-")
		out = append(out, forward.Range{First: netip.MustParseAddr(first), Last: netip.MustParseAddr(last)})
	}
	return out
}

// isolated is a filter of pods, by their numbers.
func isolated(pods map[int]*forward.Isolation, sets map[forward.Set]forward.SetChange) forward.Filter {
	f := forward.Filter{Pods: map[netip.Addr]*forward.Isolation{}, Sets: sets}
	for i, what := range pods {
		f.Pods[podIP(i)], f.Pods[podIP6(i)] = what, what
	}
	return f
}

func (n *node) filter(t testing.TB, f forward.Filter, complete bool) {
	t.Helper()
	if err := n.Filter(f, complete); err != nil {
		t.Fatal(err)
	}
}

func joins(members []forward.Member) forward.SetChange {
	return forward.SetChange{Anew: true, Join: members}
}

// reaches asks a pod by both of its addresses.
func reaches(t *testing.T, from machine, pod int) {
	t.Helper()
	for _, to := range []netip.Addr{podIP(pod), podIP6(pod)} {
		if server, _, err := from.ask(netip.AddrPortFrom(to, 80).String()); err != nil || server != to.String() {
			t.Errorf("%s: answered by %q, %v", to, server, err)
		}
	}
}

func (n *node) denies(t *testing.T, from machine, pod int) {
	t.Helper()
	for _, to := range []netip.Addr{podIP(pod), podIP6(pod)} {
		dropped(t, from, netip.AddrPortFrom(to, 80).String())
	}
}

func TestIsolatedPods(t *testing.T) {
	t.Parallel()
	n := newNode(t, 4)
	n.must(t, change(map[forward.Front]*forward.Entry{tcp(vip, 80): {Inside: to(1)}, nodePort(30000): {Inside: always(to(1))}}), true)
	n.filter(t, isolated(map[int]*forward.Isolation{
		1: {Ingress: allow(forward.Allow{Set: "clients", Ports: tcp80})},
		2: {Egress: allow(forward.Allow{Ranges: ranges("10.99.1.10-10.99.1.10", "fd00:99::10-fd00:99::10"), Ports: tcp80})},
		3: {Ingress: nobody, Egress: nobody},
	}, map[forward.Set]forward.SetChange{"clients": joins(addresses(0, 3))}), true)

	reaches(t, n.pods[0], 1)
	sees(t, n.pods[0], "10.96.0.1:80", podIP(0).String(), podIP(1).String()) // by the pod's address, not the service's
	n.denies(t, n.pods[2], 1)
	reaches(t, n.pods[2], 0)
	n.denies(t, n.pods[2], 3)
	n.denies(t, n.pods[3], 1) // it may come, but not go
	n.denies(t, n.outside, 1)
	dropped(t, n.outside, nodeIP+":30000")
	for i := range n.pods {
		reaches(t, n.machine, i) // probes
	}
	if in, out, err := n.Denied(); err != nil || in == 0 || out == 0 {
		t.Errorf("counted %d in, %d out, %v", in, out, err)
	}
	// Somebody comes, somebody goes.
	n.filter(t, forward.Filter{Sets: map[forward.Set]forward.SetChange{"clients": {Join: addresses(2), Leave: addresses(0)}}}, false)
	n.filter(t, isolated(map[int]*forward.Isolation{2: nil}, nil), false)
	n.denies(t, n.pods[0], 1)
	reaches(t, n.pods[2], 1)
}

func TestAPodAlwaysReachesItself(t *testing.T) {
	t.Parallel()
	n := newNode(t, 1)
	n.must(t, change(map[forward.Front]*forward.Entry{tcp(vip, 80): {Inside: to(0)}}), true)
	n.filter(t, isolated(map[int]*forward.Isolation{0: {Ingress: nobody, Egress: nobody}}, nil), true)
	sees(t, n.pods[0], "10.96.0.1:80", bridgeIP, podIP(0).String())
}

// TestConnectionsOutliveTheirPolicy: what has begun goes on, both ways; what begins is
// judged.
func TestConnectionsOutliveTheirPolicy(t *testing.T) {
	t.Parallel()
	n := newNode(t, 2)
	n.must(t, change(nil), true)
	var l net.Listener
	var err error
	n.pods[1].Within(func() { l, err = net.Listen("tcp", ":7777") })
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		for lines := bufio.NewScanner(c); lines.Scan(); {
			fmt.Fprintln(c, lines.Text())
		}
	}()
	var c net.Conn
	n.pods[0].Within(func() { c, err = net.DialTimeout("tcp", podIP(1).String()+":7777", 10*time.Second) })
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	answers := bufio.NewScanner(c)
	for _, line := range []string{"before", "after"} {
		fmt.Fprintln(c, line)
		if !answers.Scan() || answers.Text() != line {
			t.Fatalf("answered %q, %v; want %q", answers.Text(), answers.Err(), line)
		}
		n.filter(t, isolated(map[int]*forward.Isolation{1: {Ingress: nobody, Egress: nobody}}, nil), true)
	}
	n.denies(t, n.pods[0], 1)
}

// shapes has each kind of rule.
func shapes() forward.Filter {
	return isolated(map[int]*forward.Isolation{
		0: {
			Ingress: allow(
				forward.Allow{Set: "web", Ports: []forward.Ports{{Protocol: forward.TCP, First: 80, Last: 80}, {Protocol: forward.UDP, First: 8000, Last: 9000}, {Protocol: forward.SCTP, Last: 65535}}},
				forward.Allow{Ranges: ranges("0.0.0.0-9.255.255.255", "11.0.0.0-255.255.255.255", "2001:db8::-2001:db8::ffff")},
				forward.Allow{Set: "all"},
			),
			Egress: allow(
				forward.Allow{Set: "named", Named: true},
				forward.Allow{Everybody: true, Ports: []forward.Ports{{Protocol: forward.UDP, First: 53, Last: 53}}},
			),
		},
		1: {Egress: allow(forward.Allow{Everybody: true})},
		2: {Ingress: nobody},
	}, map[forward.Set]forward.SetChange{
		"web": joins(addresses(1)), "all": joins(addresses(0, 1, 2)),
		"named": joins([]forward.Member{{Addr: podIP(2), Port: 8080, Protocol: forward.TCP}, {Addr: podIP6(2), Port: 8080, Protocol: forward.TCP}}),
	})
}

func TestPoliciesAreListed(t *testing.T) {
	t.Parallel()
	n := newNode(t, 0)
	netnstest.Need(t, "nft")
	n.filter(t, shapes(), true)
	text := n.Run(t, "nft list table ip berth-berth0-policy") + n.Run(t, "nft list table ip6 berth-berth0-policy")
	for _, want := range []string{
		"type filter hook forward priority filter; policy accept;",
		"ct state established,related accept", "ip saddr . ip daddr @itself accept", "ip saddr vmap @egress", "goto in",
		"ip daddr vmap @ingress", "10.99.1.10 : goto i-", "10.99.1.10 : goto e-", "10.99.1.10 . 10.99.1.10",
		"ip saddr @p-web jump q-", "tcp dport 80 accept", "udp dport 8000-9000 accept", "meta l4proto sctp accept",
		"ip saddr @b-", "0.0.0.0-9.255.255.255, 11.0.0.0-255.255.255.255", "ip saddr @p-all accept",
		"ip daddr . meta l4proto . th dport @n-named goto in", "10.99.1.12 . tcp . 8080", "udp dport 53 goto in",
		"goto denied-ingress", "goto denied-egress", "counter packets 0 bytes 0 drop",
		"ip6 saddr @p-web jump q-", "2001:db8::/112", "fd00:99::12 . tcp . 8080",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("nft does not list %q", want)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

func TestAnotherProcessFindsPoliciesAsTheyAre(t *testing.T) {
	t.Parallel()
	n := newNode(t, 0)
	netnstest.Need(t, "nft")
	n.must(t, change(nil), true)
	n.filter(t, shapes(), true)
	before := n.Run(t, "nft list ruleset")
	n.open(t)
	n.must(t, change(nil), true)
	n.filter(t, shapes(), true)
	if err := n.Repair(); err != nil {
		t.Fatal(err)
	}
	n.untouched(t, before)
	// What is wanted no more goes.
	n.open(t)
	n.filter(t, isolated(map[int]*forward.Isolation{1: {Ingress: nobody}}, nil), true)
	text := n.Run(t, "nft list table ip berth-berth0-policy")
	for _, gone := range []string{"p-", "n-", "b-", "q-", "e-", "10.99.1.10"} {
		if strings.Contains(text, gone) {
			t.Errorf("%s is left over:\n%s", gone, text)
		}
	}
}

func TestPoliciesAreRepaired(t *testing.T) {
	t.Parallel()
	n := newNode(t, 3)
	netnstest.Need(t, "nft")
	n.must(t, change(nil), true)
	n.filter(t, isolated(map[int]*forward.Isolation{1: {Ingress: allow(forward.Allow{Set: "clients", Ports: tcp80})}},
		map[forward.Set]forward.SetChange{"clients": joins(addresses(0))}), true)
	for _, damage := range []string{
		"nft flush ruleset",
		"nft flush map ip berth-berth0-policy ingress",
		"nft flush set ip berth-berth0-policy p-clients",
		"nft add element ip berth-berth0-policy p-clients { 10.99.1.12 }",
		"nft flush chain ip berth-berth0-policy forward",
	} {
		n.Run(t, damage)
		if err := n.Repair(); err != nil {
			t.Fatalf("after %s: %v", damage, err)
		}
		sees(t, n.pods[0], podIP(1).String()+":80", podIP(0).String(), podIP(1).String())
		dropped(t, n.pods[2], podIP(1).String()+":80")
	}
	// A change finds the table gone.
	n.Run(t, "nft delete table ip berth-berth0-policy")
	n.filter(t, forward.Filter{Sets: map[forward.Set]forward.SetChange{"clients": {Leave: addresses(0)}}}, false)
	dropped(t, n.pods[0], podIP(1).String()+":80")
}

// TestManyPeers: more than a transaction has, and ranges that a message has no room for.
func TestManyPeers(t *testing.T) {
	t.Parallel()
	n := newNode(t, 2)
	n.must(t, change(nil), true)
	var many []forward.Member
	var blocks []forward.Range
	for i := range 12_000 {
		a := netip.AddrFrom4([4]byte{10, 99, byte(2 + i>>8), byte(i)})
		many = append(many, forward.Member{Addr: a})
		if i%2 == 0 {
			blocks = append(blocks, forward.Range{First: a, Last: a})
		}
	}
	many = append(many, addresses(0)...)
	what := map[int]*forward.Isolation{1: {Ingress: allow(forward.Allow{Ranges: blocks}, forward.Allow{Set: "many"})}}
	n.filter(t, isolated(what, map[forward.Set]forward.SetChange{"many": joins(many)}), true)
	reaches(t, n.pods[0], 1)
	n.filter(t, forward.Filter{Sets: map[forward.Set]forward.SetChange{"many": {Leave: many}}}, false)
	dropped(t, n.pods[0], podIP(1).String()+":80")
}

// TestRepairMakesTheRulesThatCouldNotBeSent: the kernel was not asked, so what it has
// is still of the generation that was right.
func TestRepairMakesTheRulesThatCouldNotBeSent(t *testing.T) {
	t.Parallel()
	n := newNode(t, 2)
	n.filter(t, isolated(nil, nil), true)
	if err := n.Repair(); err != nil {
		t.Fatal(err)
	}
	dial := n.cfg.dial
	n.cfg.dial = func(...nftables.ConnOption) (*nftables.Conn, error) { return nil, syscall.EMFILE }
	if err := n.Filter(isolated(map[int]*forward.Isolation{1: {Ingress: nobody}}, nil), false); !errors.Is(err, syscall.EMFILE) {
		t.Errorf("without a connection to the kernel: %v", err)
	}
	n.cfg.dial = dial
	if err := n.Repair(); err != nil {
		t.Fatal(err)
	}
	n.denies(t, n.pods[0], 1)
}
