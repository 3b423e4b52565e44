package nft

import (
	"errors"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"

	"github.com/berth-dev/berth/nodeagent/forward"
)

// TestWithoutNftables: a kernel says so in several ways.
func TestWithoutNftables(t *testing.T) {
	t.Parallel()
	open := func(answer syscall.Errno) error {
		k, err := Open(Config{Bridge: "berth0", dial: func(...nftables.ConnOption) (*nftables.Conn, error) {
			return nftables.New(nftables.WithTestDial(func([]netlink.Message) ([]netlink.Message, error) { return nil, answer }))
		}})
		if k != nil || !errors.Is(err, answer) {
			t.Errorf("where the kernel answers %v: %v", answer, err)
		}
		return err
	}
	const lacks = "this kernel has no nftables (CONFIG_NF_TABLES,"
	for _, no := range []syscall.Errno{syscall.EPROTONOSUPPORT, syscall.EINVAL, syscall.EOPNOTSUPP, syscall.ENOENT} {
		if err := open(no); err == nil || !strings.Contains(err.Error(), lacks) {
			t.Errorf("where the kernel answers %v: %v, want %q", no, err, lacks)
		}
	}
	if err := open(syscall.EPERM); err == nil || strings.Contains(err.Error(), lacks) {
		t.Errorf("where the kernel permits nothing: %v", err)
	}
}

// TestWhoHasAPortOfTheMachine: an address and a port come before a port of any
// address, and what is pinned before the same of a service.
func TestWhoHasAPortOfTheMachine(t *testing.T) {
	t.Parallel()
	n := newNode(t, 2)
	own := netip.MustParseAddr(nodeIP)
	n.must(t, change(map[forward.Front]*forward.Entry{
		tcp(own, 80): {Inside: always(to(0))}, tcp(own, 81): {Inside: always(to(0))}, nodePort(30000): {Inside: always(to(0))},
	}), true)
	if err := n.Pin("pod", map[forward.Front]*forward.Entry{
		nodePort(80): {Inside: always(to(1))}, tcp(own, 81): {Inside: always(to(1))}, tcp(own, 30000): {Inside: always(to(1))},
	}); err != nil {
		t.Fatal(err)
	}
	for at, pod := range map[string]int{":80": 0, ":81": 1, ":30000": 1} {
		sees(t, n.outside, nodeIP+at, bridgeIP, podIP(pod).String())
	}
}
