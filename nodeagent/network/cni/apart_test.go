package cni

import (
	"os"
	"testing"

	"github.com/vishvananda/netlink"
)

// ports gives for each pod's port of the bridge whether it is kept from the others.
func (h host) ports(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	h.Within(func() {
		bridge, err := netlink.LinkByName("berth0")
		if err != nil {
			t.Error(err)
			return
		}
		all, err := whole(netlink.LinkList)
		if err != nil {
			t.Error(err)
		}
		for _, l := range all {
			if l.Attrs().MasterIndex != bridge.Attrs().Index {
				continue
			}
			info, err := netlink.LinkGetProtinfo(l)
			if err != nil {
				t.Error(err)
			}
			out[l.Attrs().Name] = info.Isolated
		}
	})
	return out
}

// TestPodsReachEachOtherPastNoRule: where the kernel does not show bridges' frames to
// the rules for IP, pods exchange none; where it does, and sends those to services by
// the bridge alone, they may. A change of that is noticed.
func TestPodsReachEachOtherPastNoRule(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	n := h.mustOpen(t, nil)
	shown := func(text string) {
		t.Helper()
		h.Within(func() {
			if err := os.WriteFile(bridgeFilter, []byte(text), 0o644); err != nil {
				t.Error(err)
			}
			if err := n.Ready(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	check := func(when string, want bool) {
		t.Helper()
		ports := h.ports(t)
		for name, apart := range ports {
			if apart != want {
				t.Errorf("%s, port %s is kept apart: %v, want %v", when, name, apart, want)
			}
		}
		if len(ports) != 2 {
			t.Errorf("%s, ports = %v, want two", when, ports)
		}
	}
	shown("0")
	a, b := h.mustAdd(t, n, pod("a")), h.mustAdd(t, n, pod("b"))
	serve(t, b.NetNS, ":80")
	check("connected", true)
	mustAsk(t, a.NetNS, b.IPs[0].String()+":80", a.IPs[0].String())
	shown("1")
	check("shown", false)
	mustAsk(t, a.NetNS, b.IPs[0].String()+":80", a.IPs[0].String())
	shown("0")
	check("shown no more", true)
	for name := range h.ports(t) {
		h.Run(t, "ip link set "+name+" type bridge_slave isolated off")
	}
	h.mustOpen(t, nil)
	check("found", true)
}
