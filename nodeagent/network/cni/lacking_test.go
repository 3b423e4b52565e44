package cni

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/nodeagent/network"
	"github.com/berth-dev/berth/nodeagent/nft"
)

// TestWithoutNftables: the log says at start what does not work. Pods run, and reach
// each other and the machine; one that wants a port of the machine is told why not.
func TestWithoutNftables(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	var told bytes.Buffer
	n := h.mustOpen(t, func(c *Config) {
		c.Log = slog.New(slog.NewTextHandler(&told, nil))
		c.openRules = func(nft.Config) (*nft.Kernel, error) {
			return nil, fmt.Errorf("this kernel has no nftables: %w", unix.EPROTONOSUPPORT)
		}
	})
	if want := "services and host ports do not answer on this machine"; !strings.Contains(told.String(), want) || strings.Count(told.String(), "\n") != 1 {
		t.Errorf("told %q, want %q in one line", &told, want)
	}
	if err := n.Ready(t.Context()); err != nil || n.Forward() != nil {
		t.Errorf("Ready: %v, and it forwards: %v", err, n.Forward() != nil)
	}
	a, b := h.mustAdd(t, n, pod("a")), h.mustAdd(t, n, pod("b"))
	serve(t, b.NetNS, ":80")
	mustAsk(t, a.NetNS, b.IPs[0].String()+":80", a.IPs[0].String())
	mustAsk(t, string(h.NS), b.IPs[0].String()+":80", "10.99.1.1")
	wants := pod("c")
	wants.Ports = []network.PortMapping{{HostPort: 8080, ContainerPort: 80, Protocol: "tcp"}}
	if _, err := h.add(t, n, wants); err == nil || !strings.Contains(err.Error(), "this kernel has no nftables, so pods can have no ports of the machine") {
		t.Errorf("a pod with a port of the machine: %v", err)
	}
	if left, err := os.ReadDir(n.cfg.netnsDir()); err != nil || len(left) != 2 {
		t.Errorf("left of it: %v, %v", left, err)
	}
}

// TestWithoutVxlan: the log says at start whom pods will not reach, and when there is
// one, which node that is and what to do. Nodes on the link are reached.
func TestWithoutVxlan(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var told bytes.Buffer
	s.n1 = s.one.mustOpen(t, func(c *Config) {
		*c = s.n1.cfg
		c.Log = slog.New(slog.NewTextHandler(&told, nil))
		c.addTunnel = func(netlink.Link) error { return unix.EOPNOTSUPP }
	})
	if want := "this kernel has no vxlan: pods of nodes that are not on a link with this one will not be reached"; !strings.Contains(told.String(), want) {
		t.Errorf("told %q, want %q", &told, want)
	}
	err := s.one.setPeers(t, s.n1, peer1, peer2[:1], peer3[:1])
	if want := "this kernel has no vxlan: load its module, or put the machines on one link"; !errors.Is(err, unix.EOPNOTSUPP) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "198.51.100.2") {
		t.Errorf("SetPeers: %v, want %q and the node", err, want)
	}
	if err := s.three.setPeers(t, s.n3, peer3, peer1[:1]); err != nil {
		t.Fatal(err)
	}
	a, c := s.one.mustAdd(t, s.n1, pod("a")), s.three.mustAdd(t, s.n3, pod("c"))
	serve(t, c.NetNS, ":80")
	mustAsk(t, a.NetNS, c.IPs[0].String()+":80", a.IPs[0].String())
}

func TestATriedTunnelIsGone(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	var tried string
	h.mustOpen(t, func(c *Config) {
		c.addTunnel = func(l netlink.Link) error {
			tried = l.Attrs().Name
			return netlink.LinkAdd(l)
		}
	})
	if tried == "" || h.link(t, tried) != nil {
		t.Errorf("the device %q, by which tunnels were tried, is left", tried)
	}
}
