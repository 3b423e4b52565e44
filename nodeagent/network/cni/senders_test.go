package cni

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/nodeagent/network/netnstest"
)

// TestAPodSendsNothingAsItsNeighbour: nor does it after the agent came back; and of a
// pod that is gone nothing is left.
func TestAPodSendsNothingAsItsNeighbour(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	n := h.mustOpen(t, nil)
	a, b := h.mustAdd(t, n, pod("a")), h.mustAdd(t, n, pod("b"))
	netnstest.NS(a.NetNS).Run(t, fmt.Sprintf("ip addr add %s/32 dev lo", b.IPs[0]))
	var l net.PacketConn
	var err error
	h.Within(func() { l, err = net.ListenPacket("udp", "10.99.1.1:99") })
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	check := func(when string) {
		t.Helper()
		for _, from := range []string{b.IPs[0].String(), a.IPs[0].String()} {
			netnstest.NS(a.NetNS).Within(func() {
				c, err := (&net.Dialer{LocalAddr: &net.UDPAddr{IP: net.ParseIP(from)}}).Dial("udp", "10.99.1.1:99")
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				if _, err := c.Write([]byte(from)); err != nil {
					t.Error(err)
				}
			})
		}
		if err := l.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		word := make([]byte, 100)
		length, _, err := l.ReadFrom(word)
		if got, want := string(word[:length]), a.IPs[0].String(); err != nil || got != want {
			t.Errorf("%s, the machine first heard %q, %v; want %q", when, got, err, want)
		}
	}
	check("connected")
	n = h.mustOpen(t, func(c *Config) { *c = n.cfg })
	check("after the agent came back")
	h.Within(func() {
		if err := n.Del(t.Context(), pod("b").ID); err != nil {
			t.Error(err)
		}
	})
	text := h.Run(t, "nft list table bridge berth-berth0")
	if strings.Contains(text, b.IPs[0].String()) || !strings.Contains(text, a.IPs[0].String()) {
		t.Errorf("the table is not that of the one pod that is left:\n%s", text)
	}
}
