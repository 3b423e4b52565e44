package dns

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

func benchServer(b *testing.B) *Server {
	s, _ := newTestServer(b, "nameserver 192.0.2.1\n", nil)
	for i := range 5000 {
		name := fmt.Sprintf("service-%d", i)
		s.SetService(service(name, []string{fmt.Sprintf("10.96.%d.%d", i/250, i%250+1)}, port("http", v1.ProtocolTCP, 80)))
		s.SetSlice(slice(name+"-1", name, ports("http", 80), "10.85.0.1", "10.85.0.2", "10.85.0.3"))
	}
	return s
}

// BenchmarkAnswer is a query without its socket.
func BenchmarkAnswer(b *testing.B) {
	s := benchServer(b)
	wire, err := question("service-4321.default.svc.cluster.local.", dns.TypeA).SetEdns0(1232, false).Pack()
	if err != nil {
		b.Fatal(err)
	}
	var q query
	out := make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		if reply, done := s.atOnce(out, &q, wire, false); !done || len(reply) < 80 {
			b.Fatal("no answer")
		}
	}
}

// BenchmarkUDP is a query with its socket; clients and server share the
// processors.
func BenchmarkUDP(b *testing.B) {
	s := benchServer(b)
	if err := s.listen(b.Context(), netip.MustParseAddrPort("127.0.0.1:0")); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	wire, err := question("service-4321.default.svc.cluster.local.", dns.TypeA).SetEdns0(1232, false).Pack()
	if err != nil {
		b.Fatal(err)
	}
	var mu sync.Mutex
	var took []time.Duration
	b.SetParallelism(8)
	b.ResetTimer() // filling the index is not what is measured
	b.RunParallel(func(pb *testing.PB) {
		conn, err := net.Dial("udp", s.packets[0].LocalAddr().String())
		if err != nil {
			b.Error(err)
			return
		}
		defer conn.Close()
		var own []time.Duration
		buf := make([]byte, 2048)
		for pb.Next() {
			began := time.Now()
			if _, err := conn.Write(wire); err != nil {
				b.Error(err)
			}
			if n, err := conn.Read(buf); err != nil || n < 80 {
				b.Error(n, err)
			}
			own = append(own, time.Since(began))
		}
		mu.Lock()
		defer mu.Unlock()
		took = append(took, own...)
	})
	b.StopTimer()
	cancel()
	<-ended
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

// BenchmarkIndex fills an index with 5,000 services, each with three endpoints.
func BenchmarkIndex(b *testing.B) {
	for _, kind := range []string{"ClusterIP", "headless"} {
		b.Run(kind, func(b *testing.B) {
			var bytes uint64
			for b.Loop() {
				var services []*v1.Service
				var slices []*discoveryv1.EndpointSlice
				for i := range 5000 {
					name, address := fmt.Sprintf("service-%d", i), fmt.Sprintf("10.96.%d.%d", i/250, i%250+1)
					if kind == "headless" {
						address = v1.ClusterIPNone
					}
					services = append(services, service(name, []string{address}, port("http", v1.ProtocolTCP, 80)))
					slices = append(slices, slice(name+"-1", name, ports("http", 80), fmt.Sprintf("10.85.%d.1", i%250), fmt.Sprintf("10.86.%d.2", i%250), fmt.Sprintf("10.87.%d.3", i%250)))
				}
				x, err := NewIndex("cluster.local")
				if err != nil {
					b.Fatal(err)
				}
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				for i := range services {
					x.SetService(services[i])
					x.SetSlice(slices[i])
				}
				runtime.GC()
				runtime.ReadMemStats(&after)
				bytes = after.HeapAlloc - before.HeapAlloc
				runtime.KeepAlive(services)
				runtime.KeepAlive(slices)
				runtime.KeepAlive(x)
			}
			b.ReportMetric(float64(bytes)/(1<<20), "MiB")
		})
	}
}
