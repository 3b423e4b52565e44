package gate

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/store/storetest"
)

// asked serves an endpoint that notes what it was asked, and returns its port.
func asked(t *testing.T, secure bool) (port string, last func() *http.Request) {
	t.Helper()
	requests := make(chan *http.Request, 1)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case requests <- r:
		default:
		}
	}))
	if secure {
		server.EnableHTTP2 = true
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port, func() *http.Request {
		select {
		case r := <-requests:
			return r
		default:
			return nil
		}
	}
}

func special(t *testing.T) *Observer {
	o := NewObserver(storetest.Open(t), time.Now)
	o.special = true
	return o
}

func here() *v1.Pod {
	pod := gatedPod("web", madeGate)
	pod.Status.PodIP = "127.0.0.1"
	return pod
}

// What an operator wrote for a probe means the same for a gate.
func TestAnEndpointIsAskedAsAProbeAsks(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		port, last := asked(t, secure)
		w := abi.Observe{Name: "a", Kind: "http", Port: abi.Port(port), Path: "/a%2Fb/c?full=1&x#part", Headers: []abi.HTTPHeader{
			{Name: "host", Value: "shop.example"}, {Name: "X-Probe", Value: "one"}, {Name: "x-probe", Value: "two"}, {Name: "Accept", Value: ""},
		}}
		if secure {
			w.Scheme = abi.SchemeHTTPS
		}
		got := special(t).Observe(t.Context(), here(), []abi.Observe{w})[0]
		r := last()
		if !got.OK || got.Code != 200 || r == nil {
			t.Fatalf("secure %v: %+v, and the endpoint was asked %v", secure, got, r)
		}
		if r.Method != http.MethodGet || r.RequestURI != "/a%2Fb/c?full=1&x" || r.Host != "shop.example" || (r.TLS != nil) != secure {
			t.Errorf("secure %v: %s %s of %s, TLS %v", secure, r.Method, r.RequestURI, r.Host, r.TLS != nil)
		}
		if list := r.Header.Values("X-Probe"); strings.Join(list, " ") != "one two" {
			t.Errorf("secure %v: X-Probe is %q", secure, list)
		}
		if _, ok := r.Header["Accept"]; ok || r.UserAgent() != agent || r.Header.Get("Accept-Encoding") != "" {
			t.Errorf("secure %v: headers %v", secure, r.Header)
		}
		if secure && r.ProtoMajor != 2 {
			t.Errorf("an endpoint that speaks HTTP/2 was asked by %s", r.Proto)
		}
	}
}

func TestAPlainEndpointIsNoSecureOne(t *testing.T) {
	t.Parallel()
	port, _ := asked(t, false)
	got := special(t).Observe(t.Context(), here(), []abi.Observe{{Name: "a", Kind: "http", Port: abi.Port(port), Scheme: abi.SchemeHTTPS}})[0]
	if got.OK || !strings.Contains(got.Detail, "HTTP response to HTTPS client") {
		t.Errorf("Observe = %+v", got)
	}
}

func TestPortsAreFoundByName(t *testing.T) {
	t.Parallel()
	always := v1.ContainerRestartPolicyAlways
	port := func(name string, n int32, protocol v1.Protocol) []v1.ContainerPort {
		return []v1.ContainerPort{{Name: name, ContainerPort: n, Protocol: protocol}}
	}
	spec := &v1.PodSpec{
		InitContainers: []v1.Container{
			{Name: "once", Ports: port("setup", 1, v1.ProtocolTCP)},
			{Name: "sidecar", RestartPolicy: &always, Ports: port("proxy", 2, v1.ProtocolTCP)},
			{Name: "shadowed", RestartPolicy: &always, Ports: port("web", 3, v1.ProtocolTCP)},
		},
		Containers: []v1.Container{
			{Name: "dns", Ports: port("dns", 53, v1.ProtocolUDP)},
			{Name: "app", Ports: append(port("web", 8080, ""), port("admin", 9, v1.ProtocolTCP)...)},
			{Name: "other", Ports: append(port("web", 8081, v1.ProtocolTCP), port("dns", 5353, v1.ProtocolTCP)...)},
		},
	}
	for _, tt := range []struct {
		name string
		port abi.Port
		want int
	}{
		{"a number needs no container", "7", 7},
		{"the first container has it", "web", 8080},
		{"any of its ports", "admin", 9},
		{"a sidecar among the init containers", "proxy", 2},
		{"one for UDP is another", "dns", 5353},
		{"an init container that ends does not serve", "setup", 0},
		{"nobody has it", "none", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := portOf(spec, tt.port)
			if got != tt.want || (err == nil) != (tt.want != 0) {
				t.Errorf("portOf(%s) = %d, %v; want %d", tt.port, got, err, tt.want)
			}
		})
	}
}

// What a pod does not answer may cost the host no socket beyond the attempt:
// else a pod could take them all.
func TestAnAttemptLeavesNoConnectionBehind(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{abi.SchemeHTTP, abi.SchemeHTTPS} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		closed := make(chan error, 1)
		go func() {
			c, err := listener.Accept()
			if err != nil {
				closed <- err
				return
			}
			defer c.Close()
			_ = c.SetReadDeadline(time.Now().Add(30 * time.Second))
			_, err = io.Copy(io.Discard, c)
			closed <- err
		}()
		_, port, _ := net.SplitHostPort(listener.Addr().String())
		got := special(t).Observe(t.Context(), here(), []abi.Observe{{Name: "silent", Kind: "http", Port: abi.Port(port), Scheme: scheme}})[0]
		if got.OK || got.Detail == "" {
			t.Errorf("%s: an endpoint that says nothing is seen as %+v", scheme, got)
		}
		if err := <-closed; err != nil {
			t.Errorf("%s: the attempt is over, its connection is not: %v", scheme, err)
		}
	}
}

// A guest tells in its message what an endpoint did. That differs from one
// attempt to the next only if the endpoint does: each difference is written.
func TestAnAttemptThatFailsAlikeIsToldAlike(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 1))
			_ = c.(*net.TCPConn).SetLinger(0)
			_ = c.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	o, seen := special(t), map[string]int{}
	for range 5 {
		got := o.Observe(t.Context(), here(), []abi.Observe{{Name: "rude", Kind: "http", Port: abi.Port(port)}})[0]
		seen[got.Detail]++
	}
	if len(seen) != 1 {
		t.Errorf("one failure is told as %v", seen)
	}
	for detail := range seen {
		if !strings.Contains(detail, "connection reset") {
			t.Errorf("it is told as %q", detail)
		}
	}
}
