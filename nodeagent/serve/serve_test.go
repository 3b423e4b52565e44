package serve

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	utilexec "k8s.io/client-go/util/exec"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/berth-dev/berth/host/polltest"
	"github.com/berth-dev/berth/nodeagent/image"
	"github.com/berth-dev/berth/nodeagent/pod"
	"github.com/berth-dev/berth/nodeagent/runtime"
	"github.com/berth-dev/berth/nodeagent/runtime/fake"
)

// authority signs for a test.
type authority struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{t: t, key: key}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

func (a *authority) issue(name string) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{"n1"},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.cert, &key.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// records are a node's pods.
type records []*pod.Record

func (r records) View(namespace, name string, f func(*pod.Record)) bool {
	for _, rec := range r {
		if rec.Pod.Namespace == namespace && rec.Pod.Name == name {
			f(rec)
			return true
		}
	}
	return false
}

func (r records) Each(f func(*pod.Record)) {
	for _, rec := range r {
		f(rec)
	}
}

type bench struct {
	t    *testing.T
	ca   *authority
	addr string
	rt   *fake.Runtime
	rec  *pod.Record
	logs string // the machine's
}

// newBench serves one pod with a container that runs the script.
func newBench(t *testing.T, script string, stdin bool) *bench {
	b := &bench{t: t, ca: newAuthority(t), rt: fake.New(), logs: filepath.Join(t.TempDir(), "log")}
	if err := os.Mkdir(b.logs, 0o755); err != nil {
		t.Fatal(err)
	}
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u"}, Spec: v1.PodSpec{
		Containers: []v1.Container{{Name: "app", Image: "i", Stdin: stdin}, {Name: "late", Image: "i"}}}}
	b.rec = pod.New(p, time.Now())
	sandbox, err := b.rt.RunSandbox(t.Context(), runtime.SandboxConfig{Pod: runtime.PodMeta{Namespace: "default", Name: "web", UID: "u"}})
	if err != nil {
		t.Fatal(err)
	}
	b.rec.DidStartSandbox(sandbox, nil)
	log := filepath.Join(t.TempDir(), "0.log")
	id, err := b.rt.CreateContainer(t.Context(), sandbox, runtime.ContainerConfig{Name: "app", Args: []string{"sh", "-c", script}, LogPath: log, Stdin: stdin})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.rt.StartContainer(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	b.rec.DidStart("app", pod.Run{ID: id, LogPath: log, StartedAt: time.Now()}, time.Now())
	t.Cleanup(func() { b.rt.RemoveSandbox(context.Background(), sandbox) })
	b.serve()
	return b
}

func (b *bench) serve() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.t.Fatal(err)
	}
	b.addr = l.Addr().String()
	serving := b.ca.issue("system:node:n1")
	s := New(Config{
		Pods: records{b.rec}, Runtime: b.rt, ClientCA: b.ca.pool(), Clients: []string{"berth-host"}, Log: slog.New(slog.DiscardHandler), LogDir: b.logs,
		Certificate: func() (*tls.Certificate, error) { return &serving, nil },
		Node: func(context.Context) NodeStats {
			return NodeStats{Name: "n1", CPUNanos: 5e9, MemoryCapacity: 4 << 30, WorkingSet: 1 << 30, FSCapacity: 100, FSAvailable: 70,
				Images: image.Usage{Inodes: 10, InodesFree: 6}, MaxProcesses: 99, Processes: 9}
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	b.t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			b.t.Errorf("Serve: %v", err)
		}
	})
}

func (b *bench) client(cert tls.Certificate) *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: b.ca.pool(), ServerName: "n1", Certificates: []tls.Certificate{cert}}}}
}

func (b *bench) get(path string) (int, string) {
	b.t.Helper()
	resp, err := b.client(b.ca.issue("berth-host")).Get("https://" + b.addr + path)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// rest is a client configuration with the host's certificate.
func (b *bench) rest() *rest.Config {
	cert := b.ca.issue("berth-host")
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		b.t.Fatal(err)
	}
	return &rest.Config{Host: "https://" + b.addr, TLSClientConfig: rest.TLSClientConfig{
		ServerName: "n1", CAData: encodePEM("CERTIFICATE", b.ca.cert.Raw), CertData: encodePEM("CERTIFICATE", cert.Certificate[0]), KeyData: encodePEM("PRIVATE KEY", key),
	}}
}

func (b *bench) url(path, query string) *url.URL {
	return &url.URL{Scheme: "https", Host: b.addr, Path: path, RawQuery: query}
}

func TestOnlyTheHostIsServed(t *testing.T) {
	t.Parallel()
	b := newBench(t, "sleep 600", false)
	if code, body := b.get("/healthz"); code != 200 || body != "ok\n" {
		t.Errorf("/healthz: %d %q", code, body)
	}
	resp, err := b.client(b.ca.issue("system:node:n2")).Get("https://" + b.addr + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("another node gets %s", resp.Status)
	}
	if _, err := b.client(newAuthority(t).issue("berth-host")).Get("https://" + b.addr + "/healthz"); err == nil {
		t.Errorf("a foreign authority's certificate is accepted")
	}
	if _, err := b.client(tls.Certificate{}).Get("https://" + b.addr + "/healthz"); err == nil {
		t.Errorf("no certificate is accepted")
	}
}

func TestLogs(t *testing.T) {
	t.Parallel()
	b := newBench(t, "echo one; echo two; echo three; sleep 600", false)
	polltest.Until(t, "the container has said all", func() bool {
		_, body := b.get("/containerLogs/default/web/app")
		return strings.Count(body, "\n") == 3
	})
	for path, want := range map[string]struct {
		code int
		body string
	}{
		"default/web/app":                       {200, "one\ntwo\nthree\n"},
		"default/web/app?tailLines=1":           {200, "three\n"},
		"default/web/app?limitBytes=5":          {200, "one\nt"},
		"default/web/app?sinceSeconds=600":      {200, "one\ntwo\nthree\n"},
		"default/web/app?tailLines=0":           {200, ""},
		"default/web/late":                      {400, "waiting to start"},
		"default/web/none":                      {404, "not found"},
		"default/none/app":                      {404, "not found"},
		"default/web/app?previous=true":         {400, "previous terminated container"},
		"default/web/app?tailLines=x":           {400, "tailLines"},
		"default/web/app?follow=maybe":          {400, "follow"},
		"default/web/app?sinceTime=yesterday":   {400, "sinceTime"},
		"default/web/app?limitBytes=-1":         {400, "limitBytes"},
		"default/web/app?tailLines=1&follow=no": {400, "follow"},
	} {
		code, body := b.get("/containerLogs/" + path)
		if code != want.code || want.code == 200 && body != want.body || !strings.Contains(body, want.body) {
			t.Errorf("%s: %d %q, want %d %q", path, code, body, want.code, want.body)
		}
	}
}

func TestFollowedLogEndsWithItsReader(t *testing.T) {
	t.Parallel()
	b := newBench(t, "echo one; sleep 600", false)
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+b.addr+"/containerLogs/default/web/app?follow=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := b.client(b.ca.issue("berth-host")).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	line := make([]byte, 4)
	if _, err := io.ReadFull(resp.Body, line); err != nil || string(line) != "one\n" {
		t.Errorf("read %q, %v", line, err)
	}
	cancel()
}

func TestExec(t *testing.T) {
	t.Parallel()
	b := newBench(t, "sleep 600", false)
	run := func(query string, in io.Reader) (string, string, error) {
		x, err := remotecommand.NewSPDYExecutor(b.rest(), http.MethodPost, b.url("/exec/default/web/app", query))
		if err != nil {
			t.Fatal(err)
		}
		var out, errs bytes.Buffer
		err = x.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: in, Stdout: &out, Stderr: &errs})
		return out.String(), errs.String(), err
	}
	out, errs, err := run("input=1&output=1&error=1&command=sh&command=-c&command="+url.QueryEscape("cat; echo bad >&2"), strings.NewReader("good\n"))
	if err != nil || out != "good\n" || errs != "bad\n" {
		t.Errorf("exec: %q, %q, %v", out, errs, err)
	}
	_, _, err = run("output=1&error=1&command=sh&command=-c&command="+url.QueryEscape("exit 9"), nil)
	var exit utilexec.CodeExitError
	if !errors.As(err, &exit) || exit.Code != 9 {
		t.Errorf("exec: %v, want exit code 9", err)
	}
	for path, want := range map[string]int{"/exec/default/web/late?output=1&command=a": 400, "/exec/default/web/app?output=1": 400, "/exec/default/gone/app?output=1&command=a": 404} {
		if code, _ := b.get(path); code != want {
			t.Errorf("%s: %d, want %d", path, code, want)
		}
	}
}

func TestAttach(t *testing.T) {
	t.Parallel()
	b := newBench(t, "cat", true)
	x, err := remotecommand.NewSPDYExecutor(b.rest(), http.MethodPost, b.url("/attach/default/web/app", "input=1&output=1"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	in, feed := io.Pipe()
	got, out := io.Pipe()
	go x.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: in, Stdout: out})
	go io.WriteString(feed, "ping\n")
	line := make([]byte, 5)
	if _, err := io.ReadFull(got, line); err != nil || string(line) != "ping\n" {
		t.Errorf("read %q, %v", line, err)
	}
}

func TestPortForward(t *testing.T) {
	t.Parallel()
	b := newBench(t, "sleep 600", false)
	backend, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Close()
	go func() {
		conn, err := backend.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		io.Copy(conn, conn)
	}()
	transport, upgrader, err := spdy.RoundTripperFor(b.rest())
	if err != nil {
		t.Fatal(err)
	}
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, b.url("/portForward/default/web", ""))
	stop, ready := make(chan struct{}), make(chan struct{})
	f, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{fmt.Sprintf("0:%d", backend.Addr().(*net.TCPAddr).Port)}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- f.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-done:
		t.Fatalf("ForwardPorts: %v", err)
	}
	ports, err := f.GetPorts()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", ports[0].Local))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "ping")
	answer := make([]byte, 4)
	if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != "ping" {
		t.Errorf("read %q, %v", answer, err)
	}
	close(stop)
	<-done
}

func TestStats(t *testing.T) {
	t.Parallel()
	b := newBench(t, "sleep 600", false)
	code, body := b.get("/stats/summary")
	var sum Summary
	if err := json.Unmarshal([]byte(body), &sum); err != nil || code != 200 {
		t.Fatalf("%d, %v", code, err)
	}
	if sum.Node.NodeName != "n1" || len(sum.Pods) != 1 || sum.Pods[0].PodRef.Name != "web" || len(sum.Pods[0].Containers) != 1 || sum.Pods[0].Memory.WorkingSetBytes == 0 {
		t.Errorf("summary %s", body)
	}
	var kubelets statsv1alpha1.Summary
	if err := json.Unmarshal([]byte(body), &kubelets); err != nil {
		t.Fatal(err)
	}
	if n := kubelets.Node; n.Memory.AvailableBytes == nil || *n.Memory.AvailableBytes != 3<<30 || n.Fs.UsedBytes == nil || *n.Fs.UsedBytes != 30 ||
		n.Runtime == nil || *n.Runtime.ImageFs.InodesUsed != 4 || n.Rlimit == nil || *n.Rlimit.MaxPID != 99 || kubelets.Pods[0].ProcessStats == nil {
		t.Errorf("as a kubelet's, the summary lacks something: %s", body)
	}
	_, text := b.get("/metrics/resource")
	for _, want := range []string{"node_cpu_usage_seconds_total 5 ", `container_memory_working_set_bytes{container="app",namespace="default",pod="web"} 1.048576e+06 `} {
		if !strings.Contains(text, want) {
			t.Errorf("metrics lack %q:\n%s", want, text)
		}
	}
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
