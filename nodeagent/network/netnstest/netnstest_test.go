package netnstest

import (
	"net"
	"strings"
	"testing"
)

func TestMain(m *testing.M) { Main(m) }

func TestNamespacesAreApartUntilTheyAreLinked(t *testing.T) {
	t.Parallel()
	a, b := New(t), New(t)
	if got := a.Run(t, "ip -o link"); strings.Count(got, "\n") != 1 {
		t.Fatalf("a new namespace has the links %q, want its loopback alone", got)
	}
	Link(t, a, "to-b", b, "to-a")
	a.Run(t, "ip addr add 192.0.2.1/24 dev to-b")
	b.Run(t, "ip addr add 192.0.2.2/24 dev to-a")
	var l net.Listener
	var err error
	b.Within(func() { l, err = net.Listen("tcp", "192.0.2.2:80") })
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var c net.Conn
	a.Within(func() { c, err = net.Dial("tcp", "192.0.2.2:80") })
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	b.Sysctl(t, "net/ipv4/ip_forward", "0") // a new one has the machine's value
	a.Sysctl(t, "net/ipv4/ip_forward", "1")
	for n, want := range map[NS]string{a: "1", b: "0"} {
		if got := strings.TrimSpace(n.Run(t, "cat /proc/sys/net/ipv4/ip_forward")); got != want {
			t.Errorf("ip_forward is %s, want %s", got, want)
		}
	}
}
