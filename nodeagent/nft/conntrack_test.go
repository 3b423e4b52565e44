package nft

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/berth-dev/berth/nodeagent/forward"
)

func TestUDPClientsLeaveABackendThatWent(t *testing.T) {
	t.Parallel()
	n := newNode(t, 3)
	front := forward.Front{Addr: vip, Port: 53, Protocol: forward.UDP}
	port := forward.Front{Addr: netip.IPv4Unspecified(), Port: 30053, Protocol: forward.UDP}
	both := func(i int) map[forward.Front]*forward.Entry {
		return map[forward.Front]*forward.Entry{front: {Inside: to(i)}, port: {Inside: always(to(i))}}
	}
	n.must(t, change(both(1)), true)
	for _, c := range []struct {
		from machine
		to   string
	}{{n.pods[0], "10.96.0.1:53"}, {n.outside, nodeIP + ":30053"}} {
		n.must(t, change(both(1)), false)
		var conn net.Conn
		c.from.Within(func() {
			var err error
			if conn, err = net.Dial("udp4", c.to); err != nil {
				t.Error(err)
			}
		})
		defer conn.Close()
		ask := func() string {
			b := make([]byte, 200)
			if err := conn.SetDeadline(time.Now().Add(3 * time.Second)); err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Write([]byte("who?")); err != nil {
				t.Fatal(err)
			}
			got, err := conn.Read(b)
			if err != nil {
				t.Fatalf("%s: %v", c.to, err)
			}
			return string(b[:got])
		}
		if got := ask(); got != string(n.pods[1].NS) {
			t.Errorf("%s: answered by %s", c.to, got)
		}
		n.must(t, change(both(2)), false)
		if got := ask(); got != string(n.pods[2].NS) {
			t.Errorf("%s: the socket still goes to the former backend, %s", c.to, got)
		}
	}
}
