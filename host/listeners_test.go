package host

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/berth-dev/berth/host/auth/ca"
)

func TestListenersAreAddedAndEndTogether(t *testing.T) {
	t.Parallel()
	first, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	all := newListeners(first)
	port := first.Addr().(*net.TCPAddr).AddrPort().Port()
	// The first is an address of the loopback, the second one that the machine
	// has not got.
	for _, address := range []string{"127.0.0.77", "192.0.2.77"} {
		if err := all.add(netip.AddrPortFrom(netip.MustParseAddr(address), port)); err != nil {
			t.Fatal(err)
		}
	}
	for _, address := range []string{"127.0.0.1", "127.0.0.77"} {
		at := netip.AddrPortFrom(netip.MustParseAddr(address), port).String()
		client, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		conn, err := all.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if got := conn.LocalAddr().String(); got != at {
			t.Errorf("a connection to %s came in at %s", at, got)
		}
		_ = conn.Close()
	}
	if err := all.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := all.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept after Close = %v", err)
	}
	if err := all.add(netip.AddrPortFrom(netip.MustParseAddr("127.0.0.78"), port)); err != nil {
		t.Errorf("add after Close = %v", err)
	}
	if c, err := net.Dial("tcp", netip.AddrPortFrom(netip.MustParseAddr("127.0.0.78"), port).String()); err == nil {
		_ = c.Close()
		t.Error("what was added after Close listens")
	}
}

func TestWherePodsReachTheAPI(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		listens   string
		advertise []string
		want      string
	}{
		{"127.0.0.1:6443", nil, ""},
		{"[::1]:6443", nil, ""},
		{"192.0.2.4:6443", []string{"198.51.100.1"}, "192.0.2.4:6443"},
		{"0.0.0.0:6443", []string{"host.example", "198.51.100.1"}, "198.51.100.1:6443"},
	} {
		services, err := serviceRanges("")
		if err != nil {
			t.Fatal(err)
		}
		h := &Host{Config: Config{Advertise: c.advertise}, services: services}
		got := ""
		for _, at := range h.reached(netip.MustParseAddrPort(c.listens)) {
			got += at.String()
		}
		if got != c.want {
			t.Errorf("an API at %s, advertised as %q, is reached at %q; want %q", c.listens, c.advertise, got, c.want)
		}
	}
}

// Whatever the API listens at, its own kubeconfig names an address that its
// certificate has.
func TestTheCertificateNamesWhereClientsReachTheAPI(t *testing.T) {
	t.Parallel()
	authority, err := ca.Open(t.TempDir(), "test", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	for _, listens := range []string{"127.0.0.1:6443", "[::1]:6443", "192.0.2.4:6443", "0.0.0.0:6443", "[::]:6443"} {
		own := netip.MustParseAddrPort(listens)
		h := &Host{Config: Config{Listen: listens, Advertise: []string{"198.51.100.1"}}}
		leaf, err := authority.Serve(h.names(own))
		if err != nil {
			t.Fatal(err)
		}
		cert, err := leaf.Certificate()
		if err != nil {
			t.Fatal(err)
		}
		at := local(own)
		if at.Addr().IsUnspecified() || at.Port() != own.Port() {
			t.Errorf("an API at %s is reached at %s", listens, at)
		}
		for _, name := range []string{at.Addr().String(), "198.51.100.1", "127.0.0.1"} {
			if err := cert.Leaf.VerifyHostname(name); err != nil {
				t.Errorf("an API at %s is called by %s: %v", listens, name, err)
			}
		}
	}
}
