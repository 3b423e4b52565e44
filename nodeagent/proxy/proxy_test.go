package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"github.com/berth-dev/berth/host/polltest"
	"github.com/berth-dev/berth/nodeagent/apitest"
	"github.com/berth-dev/berth/nodeagent/catalog"
	"github.com/berth-dev/berth/nodeagent/forward"
	"github.com/berth-dev/berth/nodeagent/service"
)

// kernel hands on what is applied; it fails as often as it is told.
type kernel struct {
	applied chan applied
	fail    atomic.Int32
	counted map[forward.Front]uint64
}

type applied struct {
	forward.Change
	complete, repair bool
}

var errRefused = errors.New("refused")

func (k *kernel) do(a applied) error {
	refuse := k.fail.Add(-1) >= 0
	k.applied <- a
	if refuse {
		return errRefused
	}
	return nil
}

func (k *kernel) Apply(c forward.Change, complete bool) error {
	return k.do(applied{Change: c, complete: complete})
}
func (k *kernel) Repair() error { return k.do(applied{repair: true}) }

func (k *kernel) Connections() (map[forward.Front]uint64, error) { return k.counted, nil }

func (k *kernel) next(t *testing.T) applied {
	t.Helper()
	select {
	case a := <-k.applied:
		return a
	case <-time.After(time.Minute):
		t.Fatal("nothing is applied")
		return applied{}
	}
}

// nextChange is past the comparisons of the kernel.
func (k *kernel) nextChange(t *testing.T) applied {
	t.Helper()
	for {
		if a := k.next(t); !a.repair {
			return a
		}
	}
}

func web(name, ip string) *v1.Service {
	return &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: v1.ServiceSpec{
			Type: v1.ServiceTypeClusterIP, ClusterIP: ip, ClusterIPs: []string{ip}, Ports: []v1.ServicePort{{Port: 80, Protocol: v1.ProtocolTCP}},
		},
	}
}

func slice(service string, addresses ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: service + "-1", Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new(""), Port: new(int32(80)), Protocol: new(v1.ProtocolTCP)}},
	}
	for _, a := range addresses {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{a}, NodeName: new("n1")})
	}
	return s
}

// fronts gives how many backends each address has.
func fronts(a applied) map[string]int {
	out := map[string]int{}
	for f, e := range a.Fronts {
		if out[f.Addr.String()] = -1; e != nil {
			out[f.Addr.String()] = len(e.Inside.Backends)
		}
	}
	return out
}

func want(t *testing.T, a applied, complete bool, wanted map[string]int) {
	t.Helper()
	if diff := cmp.Diff(wanted, fronts(a)); diff != "" || a.complete != complete || a.repair {
		t.Errorf("applied %+v, want all: %v; fronts (-want +got):\n%s", a, complete, diff)
	}
}

func TestServicesAreFollowed(t *testing.T) {
	t.Parallel()
	other := web("other", "10.96.0.2")
	other.Labels = map[string]string{otherProxy: "mine"}
	api := apitest.New(nil)
	for _, svc := range []*v1.Service{web("web", "10.96.0.1"), other, web("dns", "10.96.0.10")} {
		if _, err := api.CoreV1().Services("default").Create(t.Context(), svc, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	slices := api.DiscoveryV1().EndpointSlices("default")
	if _, err := slices.Create(t.Context(), slice("web", "10.0.0.1"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	watched := []<-chan struct{}{api.Watched("services"), api.Watched("endpointslices")}
	c := catalog.New(api)
	k := &kernel{applied: make(chan applied)}
	var zone, ports atomic.Value
	zone.Store("")
	ports.Store([]*v1.Pod(nil))
	events := record.NewFakeRecorder(10)
	p := New(Config{
		Catalog: c, Kernel: k, Log: slog.New(slog.DiscardHandler),
		Node:  func() service.Node { return service.Node{Name: "n1", Zone: zone.Load().(string)} },
		Own:   []netip.Addr{netip.MustParseAddr("10.96.0.10")},
		Ports: func() []*v1.Pod { return ports.Load().([]*v1.Pod) }, Recorder: events,
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() { ended <- c.Run(ctx) }()
	go func() { ended <- p.Run(ctx) }()

	want(t, k.next(t), true, map[string]int{"10.96.0.1": 1})
	for _, w := range watched {
		<-w
	}
	if _, err := slices.Update(ctx, slice("web", "10.0.0.1", "10.0.0.2"), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	want(t, k.nextChange(t), false, map[string]int{"10.96.0.1": 2})
	k.counted = map[forward.Front]uint64{{Addr: netip.MustParseAddr("10.96.0.1"), Port: 80, Protocol: forward.TCP}: 5}
	if got := told(t, p)["berth_service_connections_total default web"]; got != "5" {
		t.Errorf("%q connections to the service are told, want 5", got)
	}

	// What the kernel refuses is tried again.
	k.fail.Store(1)
	if err := slices.Delete(ctx, "web-1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	want(t, k.nextChange(t), false, map[string]int{"10.96.0.1": 0})
	if a := k.next(t); !a.repair {
		t.Errorf("after a refusal: %+v, want a comparison", a)
	}

	// A node that is in another zone now has all worked out anew.
	zone.Store("z1")
	p.Wake()
	want(t, k.nextChange(t), true, map[string]int{"10.96.0.1": 0})

	if err := api.CoreV1().Services("default").Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	want(t, k.nextChange(t), false, map[string]int{"10.96.0.1": -1})
	// A pod has a port of the machine that a Service has; it is told once.
	ports.Store([]*v1.Pod{holder("holder", 30000, "")})
	clashing := web("clashing", "10.96.0.3")
	clashing.Spec.Type, clashing.Spec.Ports[0].NodePort = v1.ServiceTypeNodePort, 30000
	if _, err := api.CoreV1().Services("default").Create(ctx, clashing, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	want(t, k.nextChange(t), false, map[string]int{"10.96.0.3": 0, "0.0.0.0": 0, "127.0.0.1": 0})
	zone.Store("z2")
	p.Wake()
	want(t, k.nextChange(t), true, map[string]int{"10.96.0.3": 0, "0.0.0.0": 0, "127.0.0.1": 0})
	cancel()
	for range 2 {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run = %v", err)
		}
	}
	const told1 = "Warning HostPortConflict port 30000 of node n1 is a host port of pod default/holder: connections to it go to the pod, not to the Service"
	if got := <-events.Events; got != told1 || len(events.Events) > 0 {
		t.Errorf("told %q and %d more, want %q", got, len(events.Events), told1)
	}
	wanted := map[string]string{"berth_services": "1", "berth_service_change_seconds": "4 or more: true, below a minute: true", "berth_service_failures_total": "1"}
	if diff := cmp.Diff(wanted, told(t, p)); diff != "" {
		t.Errorf("metrics differ (-want +got):\n%s", diff)
	}
}

// Who stops sending to a pod has stopped when the kernel has it.
func TestSettleWaitsForTheKernel(t *testing.T) {
	t.Parallel()
	for name, refused := range map[string]bool{"the kernel takes it": false, "the kernel refuses it once": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := apitest.New(nil)
			if _, err := api.CoreV1().Services("default").Create(t.Context(), web("web", "10.96.0.1"), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			slices := api.DiscoveryV1().EndpointSlices("default")
			if _, err := slices.Create(t.Context(), slice("web", "10.0.0.1", "10.0.0.2"), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			watched := []<-chan struct{}{api.Watched("services"), api.Watched("endpointslices")}
			c := catalog.New(api)
			k := &kernel{applied: make(chan applied)}
			p := New(Config{
				Catalog: c, Kernel: k, Log: slog.New(slog.DiscardHandler), Node: func() service.Node { return service.Node{Name: "n1"} },
				Ports: func() []*v1.Pod { return nil }, Recorder: record.NewFakeRecorder(10),
			})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 2)
			go func() { ended <- c.Run(ctx) }()
			go func() { ended <- p.Run(ctx) }()
			defer func() { cancel(); <-ended; <-ended }()
			want(t, k.next(t), true, map[string]int{"10.96.0.1": 2})
			for _, w := range watched {
				<-w
			}
			if a := k.next(t); !a.repair {
				t.Fatalf("after the first: %+v, want a comparison", a)
			}
			if refused {
				k.fail.Store(1)
			}
			if _, err := slices.Update(ctx, slice("web", "10.0.0.1"), metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			polltest.Until(t, "the catalog has it", func() bool { return len(c.SlicesOf("default", "web")[0].Endpoints) == 1 })
			done := make(chan struct{})
			go func() { defer close(done); p.Settle(ctx, types.NamespacedName{Namespace: "default", Name: "web"}) }()
			still := func(what string) {
				t.Helper()
				select {
				case <-done:
					t.Fatal(what)
				default:
				}
			}
			still("nobody waited for the kernel")
			want(t, k.nextChange(t), false, map[string]int{"10.96.0.1": 1})
			if refused {
				still("it was refused")
				if a := k.next(t); !a.repair {
					t.Errorf("after a refusal: %+v, want a comparison", a)
				}
			}
			<-done
			over, stop := context.WithCancel(ctx)
			stop()
			p.Settle(over, types.NamespacedName{Namespace: "default", Name: "web"}) // waits for nobody
		})
	}
}

// told are the metrics, by name and labels.
func told(t *testing.T, p *Proxy) map[string]string {
	t.Helper()
	told := map[string]string{}
	metrics := make(chan prometheus.Metric, 10)
	p.Collect(metrics)
	close(metrics)
	for m := range metrics {
		var out dto.Metric
		if err := m.Write(&out); err != nil {
			t.Fatal(err)
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(m.Desc().String(), `Desc{fqName: "`), `"`)
		for _, l := range out.Label {
			name += " " + l.GetValue()
		}
		switch {
		case out.Gauge != nil:
			told[name] = fmt.Sprint(out.Gauge.GetValue())
		case out.Counter != nil:
			told[name] = fmt.Sprint(out.Counter.GetValue())
		default:
			// A busy machine may take longer than the wait between comparisons.
			told[name] = fmt.Sprint("4 or more: ", out.Summary.GetSampleCount() >= 4, ", below a minute: ", out.Summary.GetSampleSum() < 60)
		}
	}
	return told
}

func TestHealthAsKubeProxyTellsIt(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := uint16(l.Addr().(*net.TCPAddr).Port)
	h := newHealth(slog.New(slog.DiscardHandler))
	defer h.close()
	web := types.NamespacedName{Namespace: "default", Name: "web"}
	h.set(map[uint16]service.Health{port: {Service: web, LocalReady: 2}}) // the port is taken
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for ready, code := range map[int]int{2: http.StatusOK, 0: http.StatusServiceUnavailable} {
		h.set(map[uint16]service.Health{port: {Service: web, LocalReady: ready}})
		resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/", port))
		if err != nil {
			t.Fatal(err)
		}
		var got any
		if err := errors.Join(json.NewDecoder(resp.Body).Decode(&got), resp.Body.Close()); err != nil {
			t.Fatal(err)
		}
		wanted := map[string]any{
			"service": map[string]any{"namespace": "default", "name": "web"}, "localEndpoints": float64(ready), "serviceProxyHealthy": true,
		}
		if diff := cmp.Diff(wanted, got); diff != "" || resp.StatusCode != code || resp.Header.Get("X-Load-Balancing-Endpoint-Weight") != fmt.Sprint(ready) {
			t.Errorf("%d ready: %s, %v; differs (-want +got):\n%s", ready, resp.Status, resp.Header, diff)
		}
	}
	h.set(nil)
	if resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/", port)); err == nil {
		resp.Body.Close()
		t.Error("a service that is gone is still told of")
	}
}
