package ingress

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/client-go/util/cert"
)

// world is a server on the loopback.
type world struct {
	*testing.T
	server      *Server
	http, https string
	ready       map[string][]netip.AddrPort
	secrets     map[string]*v1.Secret
	read        atomic.Int32 // how often a Secret was
}

func serve(t *testing.T, ready map[string][]netip.AddrPort, secrets map[string]*v1.Secret, all ...*networkingv1.Ingress) *world {
	t.Helper()
	w := &world{T: t, ready: ready, secrets: secrets}
	plain, secure := listen(t), listen(t)
	w.http, w.https = plain.Addr().String(), secure.Addr().String()
	w.server = New(Config{
		HTTP: plain, HTTPS: secure, Log: slog.New(slog.DiscardHandler),
		Backends: func(target Target) []netip.AddrPort { return w.ready[target.Service] },
		Secret: func(_ context.Context, _, name string) (*v1.Secret, error) {
			w.read.Add(1)
			if s := w.secrets[name]; s != nil {
				return s, nil
			}
			return nil, fmt.Errorf("no Secret %s", name)
		},
	})
	w.server.Set(NewTable(all))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.server.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return w
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// upstream answers by a handler.
func upstream(t *testing.T, h http.HandlerFunc) netip.AddrPort {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return netip.MustParseAddrPort(s.Listener.Addr().String())
}

// nobody is an address that is taken, and where no connection is accepted.
func nobody(t *testing.T) netip.AddrPort {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	bound, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(bound.(*syscall.SockaddrInet4).Port))
}

// ask tells what becomes of a request over HTTP.
func (w *world) ask(method, host, path, body string) (code int, text string) {
	w.Helper()
	r, err := http.NewRequestWithContext(w.Context(), method, "http://"+w.http+path, strings.NewReader(body))
	if err != nil {
		w.Fatal(err)
	}
	r.Host = host
	r.Header.Set("X-Forwarded-For", "203.0.113.9")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	if err != nil {
		w.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		w.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

func TestARequestGoesToWhoIsReadyForIt(t *testing.T) {
	t.Parallel()
	at := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s %s for %s of %s by %s", r.Method, r.Host, r.URL.RequestURI(), body,
			r.Header.Get("X-Forwarded-For"), r.Header.Get("X-Forwarded-Host"), r.Header.Get("X-Forwarded-Proto"))
	})
	w := serve(t, map[string][]netip.AddrPort{"web": {at}, "half": {nobody(t), at}, "broken": {nobody(t)}}, nil,
		with(ingress("i"), "a.com", path{prefix, "/", "web"}, path{prefix, "/half", "half"}, path{prefix, "/broken", "broken"}, path{prefix, "/none", "none"}))
	code, text := w.ask("POST", "a.com", "/x%2Fy?z=1&a=2;3&q=50%", "hello")
	if want := "POST a.com /x%2Fy?z=1&a=2;3&q=50% hello for 127.0.0.1 of a.com by http"; code != 200 || text != want {
		t.Errorf("%d %q, want %q", code, text, want)
	}
	for range 20 { // whoever is tried first
		if code, text := w.ask("POST", "a.com", "/half", "hello"); code != 200 || !strings.Contains(text, "hello") {
			t.Fatalf("where one of two does not accept: %d %s", code, text)
		}
	}
	for _, c := range []struct {
		host, path string
		want       int
	}{{"b.com", "/", 404}, {"a.com", "/none", 503}, {"a.com", "/broken", 502}} {
		if code, text := w.ask("GET", c.host, c.path, ""); code != c.want {
			t.Errorf("%s%s: %d %s, want %d", c.host, c.path, code, text, c.want)
		}
	}
	for answer, want := range map[string]float64{forwarded: 22, unmatched: 1, unready: 1, failed: 1} {
		var m dto.Metric
		if err := w.server.requests.WithLabelValues(answer).Write(&m); err != nil || m.Counter.GetValue() != want {
			t.Errorf("%v requests are counted as %s, want %v", m.Counter.GetValue(), answer, want)
		}
	}
	w.server.Set(NewTable(nil))
	if code, _ := w.ask("GET", "a.com", "/", ""); code != 404 {
		t.Errorf("of an Ingress that is gone: %d", code)
	}
}

func TestABackendThatBreaksOffIsNotAskedTwice(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	at := upstream(t, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		panic(http.ErrAbortHandler)
	})
	w := serve(t, map[string][]netip.AddrPort{"web": {at, at, at}}, nil, with(ingress("i"), "", path{prefix, "/", "web"}))
	if code, _ := w.ask("POST", "a.com", "/", "pay"); code != 502 || asked.Load() != 1 {
		t.Errorf("%d after %d requests, want 502 after one", code, asked.Load())
	}
}

func TestWebSocketsGoThrough(t *testing.T) {
	t.Parallel()
	at := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		fmt.Fprintf(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", r.Header.Get("Upgrade"))
		rw.Flush()
		line, _ := rw.ReadString('\n')
		fmt.Fprintf(rw, "got %s", line)
		rw.Flush()
	})
	w := serve(t, map[string][]netip.AddrPort{"web": {at}}, nil, with(ingress("i"), "", path{prefix, "/", "web"}))
	conn, err := net.Dial("tcp", w.http)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET /ws HTTP/1.1\r\nHost: a.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v %v", resp, err)
	}
	fmt.Fprint(conn, "a frame\n")
	if line, err := in.ReadString('\n'); line != "got a frame\n" {
		t.Errorf("%q, %v", line, err)
	}
}

func TestTLSHasTheCertificateOfTheHost(t *testing.T) {
	t.Parallel()
	at := upstream(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Header.Get("X-Forwarded-Proto")) })
	i := with(ingress("i"), "", path{prefix, "/", "web"})
	i.Spec.TLS = []networkingv1.IngressTLS{
		{Hosts: []string{"a.com"}, SecretName: "a"}, {Hosts: []string{"*.b.com"}, SecretName: "b"},
		{Hosts: []string{"missing.com"}, SecretName: "missing"}, {Hosts: []string{"bad.com"}, SecretName: "bad"},
	}
	pool := x509.NewCertPool()
	w := serve(t, map[string][]netip.AddrPort{"web": {at}}, map[string]*v1.Secret{
		"a": pair(t, pool, "a.com"), "b": pair(t, pool, "*.b.com"), "bad": {Data: map[string][]byte{v1.TLSCertKey: []byte("none")}},
	}, i)
	for host, want := range map[string]bool{"a.com": true, "x.b.com": true, "x.y.b.com": false, "missing.com": false, "bad.com": false, "else.com": false} {
		for range 3 {
			client := &http.Client{Transport: &http.Transport{
				ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: host}, DisableKeepAlives: true,
			}}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+w.https, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			r.Host = host
			resp, err := client.Do(r)
			if (err == nil) != want {
				t.Errorf("%s: %v, want it to be answered: %v", host, err, want)
			}
			if err != nil {
				continue
			}
			text, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.ProtoMajor != 2 || string(text) != "https" {
				t.Errorf("%s is asked by %s: %s", host, resp.Proto, text)
			}
		}
	}
	if n := w.read.Load(); n > 4 {
		t.Errorf("four Secrets were read %d times", n)
	}
}

// pair is a Secret with a certificate, which is trusted by the pool.
func pair(t *testing.T, pool *x509.CertPool, host string) *v1.Secret {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{host}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	crt := pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: der})
	pool.AppendCertsFromPEM(crt)
	return &v1.Secret{Data: map[string][]byte{
		v1.TLSCertKey: crt, v1.TLSPrivateKeyKey: pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}),
	}}
}
