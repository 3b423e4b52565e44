package nft

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"

	"github.com/berth-dev/berth/nodeagent/forward"
)

// BenchmarkServices programs many services of three endpoints, finds them again,
// and changes one.
func BenchmarkServices(b *testing.B) {
	n := newNode(b, 0)
	at := func(i int) forward.Front {
		return tcp(netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)}), 80)
	}
	entry := func(i, variant int) *forward.Entry {
		var t forward.Target
		for j := range 3 {
			t.Backends = append(t.Backends, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(100 + j), byte(i >> 8), byte(i)}), uint16(8080+variant)))
		}
		return &forward.Entry{Inside: t}
	}
	for _, services := range []int{10000, 30000} {
		benchmarkServices(b, n, services, at, entry)
	}
}

func benchmarkServices(b *testing.B, n *node, services int, at func(int) forward.Front, entry func(i, variant int) *forward.Entry) {
	all := func() forward.Change {
		c := forward.NewChange()
		for i := range services {
			c.Fronts[at(i)] = entry(i, 0)
			c.Virtual[at(i).Addr] = true
		}
		return c
	}
	b.Run(fmt.Sprint(services, " from nothing"), func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			n.open(b)
			if err := n.Remove(); err != nil {
				b.Fatal(err)
			}
			n.open(b)
			b.StartTimer()
			n.must(b, all(), true)
		}
	})
	b.Run(fmt.Sprint(services, " found again"), func(b *testing.B) {
		for b.Loop() {
			n.open(b)
			n.must(b, all(), true)
		}
	})
	b.Run(fmt.Sprint("three endpoints of ", services, " services"), func(b *testing.B) {
		n.open(b)
		n.must(b, all(), true)
		variant := 0
		for b.Loop() {
			variant++
			n.must(b, forward.Change{Fronts: map[forward.Front]*forward.Entry{at(variant % services): entry(variant%services, variant)}}, false)
		}
	})
	b.Run(fmt.Sprint(services, " counted"), func(b *testing.B) {
		n.open(b)
		n.must(b, all(), true)
		for b.Loop() {
			if _, err := n.Connections(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run(fmt.Sprint(services, " compared, none changed"), func(b *testing.B) {
		n.open(b)
		n.must(b, all(), true)
		for b.Loop() {
			if err := n.Repair(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkConnect is a connection of a pod to another, without a service and by
// one of few or of many.
func BenchmarkConnect(b *testing.B) {
	n := newNode(b, 2)
	connect := func(name, to string) {
		b.Run(name, func(b *testing.B) {
			n.pods[0].Within(func() {
				for b.Loop() {
					c, err := net.Dial("tcp", to)
					if err != nil {
						b.Error(err)
						return
					}
					if err := errors.Join(c.(*net.TCPConn).SetLinger(0), c.Close()); err != nil { // ports are free at once
						b.Error(err)
					}
				}
			})
		})
	}
	connect("to the pod", podIP(1).String()+":80")
	for _, services := range []int{100, 30000} {
		c := change(map[forward.Front]*forward.Entry{tcp(vip, 80): {Inside: to(1)}})
		for i := range services {
			c.Fronts[tcp(netip.AddrFrom4([4]byte{10, 97, byte(i >> 8), byte(i)}), 80)] = &forward.Entry{Inside: to(0, 1)}
		}
		n.must(b, c, true)
		connect(fmt.Sprint("by one of ", services, " services"), "10.96.0.1:80")
	}
}
