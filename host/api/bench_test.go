package api_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berth-dev/berth/host/api/apitest"
	"github.com/berth-dev/berth/host/api/kind"
	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/api/wire"
	"github.com/berth-dev/berth/host/polltest"
	"github.com/berth-dev/berth/host/store/badger"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const protobufType = "application/vnd.kubernetes.protobuf"

// protobufOf is a body as a client sends it.
func protobufOf(b testing.TB, obj *corev1.Pod) []byte {
	b.Helper()
	k := kind.MustStored("pods")
	t := wire.Typed{Kind: k, Version: k.Stored(), Format: wire.Format{Media: wire.Protobuf}}
	data, err := t.Object(obj)
	if err != nil {
		b.Fatal(err)
	}
	return data
}

// BenchmarkCreate has 64 clients create pods, over loopback with TLS and
// HTTP/2, in protobuf, with synced writes.
func BenchmarkCreate(b *testing.B) {
	engine, err := badger.Open(b.TempDir(), nil)
	if err != nil {
		b.Fatal(err)
	}
	s := apitest.StartOn(b, engine)
	const clients = 64
	var next atomic.Int64
	var wait sync.WaitGroup
	https := make([]*http.Client, clients)
	for i := range https {
		https[i] = httpClient(b, s)
		post(b, https[i], s.URL, protobufOf(b, pod(fmt.Sprintf("warm-%d", i))))
	}
	b.ReportAllocs()
	b.ResetTimer()
	for _, c := range https {
		wait.Go(func() {
			for {
				n := next.Add(1)
				if n > int64(b.N) {
					return
				}
				post(b, c, s.URL, protobufOf(b, pod(fmt.Sprintf("pod-%d", n))))
			}
		})
	}
	wait.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "creates/s")
}

func post(b testing.TB, c *http.Client, server string, body []byte) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, server+"/api/v1/namespaces/default/pods", bytes.NewReader(body))
	if err != nil {
		b.Error(err)
		return
	}
	req.Header.Set("Content-Type", protobufType)
	req.Header.Set("Accept", protobufType)
	resp, err := c.Do(req)
	if err != nil {
		b.Error(err)
		return
	}
	defer resp.Body.Close()
	if data, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusCreated {
		b.Errorf("create = %d %q", resp.StatusCode, data)
	}
}

// BenchmarkRegistryCreate is a create without HTTP and without a disk.
func BenchmarkRegistryCreate(b *testing.B) {
	s := apitest.Start(b)
	ctx := context.Background()
	r := registry.On("pods", "default", "")
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := s.Registry.Create(ctx, r, pod("pod-"+strconv.Itoa(i))); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkListPods reads 10,000 pods in protobuf to the last byte.
func BenchmarkListPods(b *testing.B) {
	s := apitest.Start(b)
	for i := range 10_000 {
		if _, err := s.Registry.Create(b.Context(), registry.On("pods", "default", ""), pod(fmt.Sprintf("pod-%d", i))); err != nil {
			b.Fatal(err)
		}
	}
	c := httpClient(b, s)
	for _, encoding := range []string{"identity", "gzip"} {
		b.Run(encoding, func(b *testing.B) {
			for b.Loop() {
				req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, s.URL+"/api/v1/pods", nil)
				if err != nil {
					b.Fatal(err)
				}
				req.Header.Set("Accept", protobufType)
				req.Header.Set("Accept-Encoding", encoding)
				resp, err := c.Do(req)
				if err != nil {
					b.Fatal(err)
				}
				n, err := io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				if err != nil || n < 100_000 {
					b.Fatalf("list of %d bytes, %v", n, err)
				}
				b.SetBytes(n)
			}
		})
	}
}

// BenchmarkWatch has 1,000 watchers follow 10 events a second, and reports how
// late the slowest of a hundred deliveries is.
func BenchmarkWatch(b *testing.B) {
	s := apitest.Start(b)
	const watchers, connections = 1000, 20
	var late sync.Map // watcher → delays
	sent := make([]atomic.Int64, 1<<16)
	var delivered atomic.Int64
	ctx, cancel := context.WithCancel(context.Background())
	var wait sync.WaitGroup
	clients := make([]*http.Client, connections)
	for i := range clients {
		clients[i] = httpClient(b, s)
		clients[i].Timeout = 0
	}
	for i := range watchers {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/api/v1/namespaces/default/configmaps?watch=1", nil)
		if err != nil {
			b.Fatal(err)
		}
		resp, err := clients[i%connections].Do(req)
		if err != nil {
			b.Fatal(err)
		}
		wait.Go(func() {
			defer resp.Body.Close()
			late.Store(i, follow(resp.Body, sent, &delivered))
		})
	}
	b.ResetTimer()
	events := 0
	for b.Loop() {
		name := fmt.Sprintf("event-%d", events)
		sent[events].Store(time.Now().UnixNano())
		if _, err := s.Registry.Create(ctx, registry.On("configmaps", "default", ""), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			b.Fatal(err)
		}
		events++
		polltest.Pass(100 * time.Millisecond) // between two events
	}
	polltest.Within(10*time.Second, func() bool { return delivered.Load() >= int64(events*watchers) })
	cancel()
	wait.Wait()
	var all []time.Duration
	late.Range(func(_, v any) bool { all = append(all, v.([]time.Duration)...); return true })
	if len(all) != events*watchers {
		b.Fatalf("%d deliveries of %d", len(all), events*watchers)
	}
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, "p99-ms")
}

// follow notes when each event arrived.
func follow(body io.Reader, sent []atomic.Int64, delivered *atomic.Int64) []time.Duration {
	var delays []time.Duration
	var rest []byte
	buf := make([]byte, 16<<10)
	for {
		n, err := body.Read(buf)
		now := time.Now().UnixNano()
		rest = append(rest, buf[:n]...)
		for {
			line, after, ok := bytes.Cut(rest, []byte("\n"))
			if !ok {
				break
			}
			rest = after
			if _, name, ok := bytes.Cut(line, []byte(`"name":"event-`)); ok {
				digits, _, _ := bytes.Cut(name, []byte(`"`))
				if i, err := strconv.Atoi(string(digits)); err == nil {
					delays = append(delays, time.Duration(now-sent[i].Load()))
					delivered.Add(1)
				}
			}
		}
		if err != nil {
			return delays
		}
	}
}
