package stream

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-dev/berth/host/auth/ca"
	"github.com/berth-dev/berth/host/auth/view/viewtest"
	"github.com/berth-dev/berth/host/logtest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	agentforward "k8s.io/cri-streaming/pkg/streaming/portforward"
	agentcommand "k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
	utilexec "k8s.io/utils/exec"
)

// runtime stands in for an agent's containers: exec echoes its input in upper
// case and ends with the code that its last word says; "hang" is silent till
// what was put under its second word is closed, or the test is over.
type runtime struct {
	sizes chan agentcommand.TerminalSize
	hangs *sync.Map
	over  chan struct{}
}

func (r runtime) ExecInContainer(_ context.Context, _, _, container string, cmd []string, in io.Reader, out, errs io.WriteCloser, tty bool, resize <-chan agentcommand.TerminalSize, _ time.Duration) error {
	if cmd[0] == "hang" {
		if end, ok := r.hangs.Load(cmd[1]); ok {
			select {
			case <-end.(chan struct{}):
			case <-r.over:
			}
		}
		return nil
	}
	fmt.Fprintf(out, "%s: %s\n", container, strings.Join(cmd, " "))
	if tty && resize != nil {
		r.sizes <- <-resize
	}
	if in != nil {
		data, err := io.ReadAll(in)
		if err != nil {
			return err
		}
		fmt.Fprint(out, strings.ToUpper(string(data)))
	}
	if errs != nil {
		fmt.Fprint(errs, "to stderr")
	}
	code, err := strconv.Atoi(cmd[len(cmd)-1])
	if err != nil {
		return nil
	}
	return utilexec.CodeExitError{Err: fmt.Errorf("exit status %d", code), Code: code}
}

func (r runtime) AttachContainer(_ context.Context, _, _, container string, _ io.Reader, out, _ io.WriteCloser, _ bool, _ <-chan agentcommand.TerminalSize) error {
	fmt.Fprintf(out, "attached to %s", container)
	return nil
}

func (r runtime) PortForward(_ context.Context, pod, _ string, port int32, stream io.ReadWriteCloser) error {
	line := make([]byte, 5)
	if _, err := io.ReadFull(stream, line); err != nil {
		return err
	}
	_, err := fmt.Fprintf(stream, "%s %d %s", pod, port, bytes.ToUpper(line))
	return err
}

// ServeHTTP is the agent's server, as a kubelet's.
func (r runtime) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.Header.Get("Authorization") != "" || req.Header.Get("Impersonate-User") != "" {
		http.Error(w, "the client's credentials came through", http.StatusTeapot)
		return
	}
	parts := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	protocols := agentcommand.SupportedStreamingProtocols
	const idle, create = time.Minute, 10 * time.Second
	switch parts[0] {
	case "containerLogs":
		r.logs(w, req, parts)
	case "exec":
		opts, err := agentcommand.NewOptions(req)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		agentcommand.ServeExec(w, req, r, parts[2], "", parts[3], req.URL.Query()["command"], opts, idle, create, protocols)
	case "attach":
		opts, err := agentcommand.NewOptions(req)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		agentcommand.ServeAttach(w, req, r, parts[2], "", parts[3], opts, idle, create, protocols)
	case "portForward":
		opts, err := agentforward.NewV4Options(req)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		agentforward.ServePortForward(w, req, r, parts[2], "", opts, idle, create, []string{agentforward.ProtocolV1Name})
	case "healthz":
		fmt.Fprint(w, "ok")
	default:
		http.NotFound(w, req)
	}
}

func (r runtime) logs(w http.ResponseWriter, req *http.Request, parts []string) {
	if parts[3] == "waiting" {
		http.Error(w, `container "waiting" in pod "p" is waiting to start: ContainerCreating`, http.StatusBadRequest)
		return
	}
	fmt.Fprintf(w, "%s %s\n", strings.Join(parts[1:], "/"), req.URL.Query().Encode())
	if req.URL.Query().Get("follow") == "" {
		return
	}
	w.(http.Flusher).Flush()
	<-req.Context().Done() // a followed log ends with its reader
}

// cluster is a host with one node whose agent answers, and one that has none.
type cluster struct {
	objects *viewtest.Memory
	url     string
	said    logtest.Text // by the server, as of handlers that panic
	// awaited holds, by the address of a client, what is closed when the host
	// has done with it.
	awaited sync.Map
	runtime runtime
	refuse  bool
}

func newCluster(t testing.TB) *cluster {
	t.Helper()
	c := &cluster{objects: &viewtest.Memory{}, runtime: runtime{sizes: make(chan agentcommand.TerminalSize, 1), hangs: &sync.Map{}, over: make(chan struct{})}}
	t.Cleanup(func() { close(c.runtime.over) })
	clients, agents := authority(t), authority(t)
	agent := serveAgent(t, c.runtime, pairOf(t, agents, ca.Subject{Name: "system:node:n1", DNS: []string{"n1"}}), clients.Pool())
	_, port, err := net.SplitHostPort(agent.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	node := func(name string, port int) {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
		n.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(port)
		c.objects.Put("nodes", n)
	}
	node("n1", number)
	node("impostor", number) // another machine's address
	node("simulated", 0)
	node("down", 1)
	c.pod("p", "n1", "c")
	c.pod("several", "n1", "a", "b", "waiting")
	c.pod("pending", "", "c")
	c.pod("sim", "simulated", "c")
	c.pod("stolen", "impostor", "c")
	c.pod("lost", "down", "c")
	own := pairOf(t, clients, ca.AgentClient)
	s := New(Config{
		Objects:     c.objects,
		Certificate: func() (*tls.Certificate, error) { return &own, nil },
		Agents:      agents.Pool(),
		May: authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
			if c.refuse || a.GetVerb() != "create" {
				return authorizer.DecisionNoOpinion, "", nil
			}
			return authorizer.DecisionAllow, "", nil
		}),
	})
	s.timeout = 100 * time.Millisecond
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if done, ok := c.awaited.LoadAndDelete(r.RemoteAddr); ok {
				close(done.(chan struct{}))
			}
		}()
		parts := strings.SplitN(strings.TrimPrefix(r.URL.Path, "/"), "/", 4)
		t := Target{Resource: parts[0], Namespace: "dev", Name: parts[1], Subresource: parts[2], User: &user.DefaultInfo{Name: "erin"}}
		if len(parts) > 3 {
			t.Path = "/" + parts[3]
		}
		s.ServeHTTP(w, r, t)
	}))
	server.Config.ErrorLog = log.New(&c.said, "", 0)
	server.Start()
	t.Cleanup(server.Close)
	t.Cleanup(s.Close)
	c.url = server.URL
	return c
}

func (c *cluster) pod(name, node string, containers ...string) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "dev", Name: name}, Spec: corev1.PodSpec{NodeName: node}}
	for _, container := range containers {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: container})
	}
	c.objects.Put("pods", pod)
}

func authority(t testing.TB) *ca.Authority {
	t.Helper()
	a, err := ca.Open(t.TempDir(), "test", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func pairOf(t testing.TB, a *ca.Authority, s ca.Subject) tls.Certificate {
	t.Helper()
	pair, err := a.Issue(s)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := pair.TLS()
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func serveAgent(t testing.TB, handler http.Handler, cert tls.Certificate, clients *x509.CertPool) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

func (c *cluster) get(t *testing.T, path string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer secret")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

func TestAnswersWithoutUpgrade(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	tests := map[string]struct {
		path string
		code int
		want string
	}{
		"the log of the only container":        {"/pods/p/log", 200, "dev/p/c \n"},
		"with all that can be asked":           {"/pods/p/log?container=c&tailLines=5&sinceSeconds=9&timestamps=true&previous=true&limitBytes=7", 200, "dev/p/c limitBytes=7&previous=true&sinceSeconds=9&tailLines=5&timestamps=true\n"},
		"one of its streams":                   {"/pods/p/log?stream=Stderr", 200, "dev/p/c stream=Stderr\n"},
		"both of its streams":                  {"/pods/p/log?stream=All", 200, "dev/p/c \n"},
		"a stream that there is not":           {"/pods/p/log?stream=Stdlog", 422, "stream"},
		"since a time":                         {"/pods/p/log?sinceTime=2026-03-01T12:00:00Z", 200, "sinceTime=2026-03-01T12%3A00%3A00Z"},
		"of one container of several":          {"/pods/several/log?container=b", 200, "dev/several/b"},
		"of several without a name":            {"/pods/several/log", 400, "choose one of: [a b waiting]"},
		"of a container that is not there":     {"/pods/p/log?container=x", 400, "container x is not valid for pod p"},
		"of a container that waits":            {"/pods/several/log?container=waiting", 400, "waiting to start: ContainerCreating"},
		"of a container named by a path":       {"/pods/p/log?container=../../exec", 400, "not valid"},
		"of a pod that is not there":           {"/pods/none/log", 404, `pods \"none\" not found`},
		"of a pod that waits for a node":       {"/pods/pending/log", 200, ""},
		"of a simulated pod":                   {"/pods/sim/log", 400, "simulated"},
		"of a pod whose node is down":          {"/pods/lost/log", 503, "node down does not answer"},
		"of a node at somebody else's address": {"/pods/stolen/log", 503, "certificate"},
		"with a negative tail":                 {"/pods/p/log?tailLines=-1", 422, "tailLines"},
		"with a tail that is no number":        {"/pods/p/log?tailLines=x", 400, "invalid syntax"},
		"with two sinces":                      {"/pods/p/log?sinceSeconds=1&sinceTime=2026-03-01T12:00:00Z", 422, "at most one"},
		"exec without an upgrade":              {"/pods/p/exec?command=a&stdout=true", 400, "Upgrade request required"},
		"exec without a command":               {"/pods/p/exec?stdout=true", 400, "at least one command"},
		"exec without a stream":                {"/pods/p/exec?command=a", 400, "at least 1 of stdin"},
		"exec in a pod that waits":             {"/pods/pending/exec?command=a&stdout=1", 400, "does not have a host assigned"},
		"exec in a simulated pod":              {"/pods/sim/exec?command=a&stdout=1", 400, "simulated"},
		"port-forward of a port of no form":    {"/pods/p/portforward?ports=x", 400, "invalid syntax"},
		"the node's agent":                     {"/nodes/n1/proxy/healthz", 200, "ok"},
		"another port of the node":             {"/nodes/n1:22/proxy/", 400, "only the agent's port"},
		"a node of no form":                    {"/nodes/n1:a:b:c/proxy/", 400, "not of the form"},
		"a subresource of no kind":             {"/pods/p/steal", 404, "not found"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, text := c.get(t, test.path)
			if code != test.code || !strings.Contains(text, test.want) {
				t.Errorf("GET %s = %d %s, want %d with %q", test.path, code, text, test.code, test.want)
			}
			if code != 200 && !strings.Contains(text, `"kind":"Status"`) {
				t.Errorf("GET %s is no Status: %s", test.path, text)
			}
		})
	}
}

func TestAProxyWithoutAPathLeadsToItsRoot(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	still := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url+"/nodes/n1/proxy?a=b", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := still.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if to := answer.Header.Get("Location"); answer.StatusCode != http.StatusMovedPermanently || !strings.HasSuffix(to, "/nodes/n1/proxy/?a=b") {
		t.Errorf("GET proxy = %d, leads to %q", answer.StatusCode, to)
	}
}

func TestAFollowedLogComesAsItIsWritten(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+"/pods/p/log?follow=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	line := make([]byte, len("dev/p/c follow=true\n"))
	if _, err := io.ReadFull(answer.Body, line); err != nil || string(line) != "dev/p/c follow=true\n" {
		t.Errorf("first line = %q, %v", line, err)
	}
}

// protocols are the ways by which clients exec.
func protocols(t *testing.T, target string) map[string]remotecommand.Executor {
	t.Helper()
	config := &rest.Config{Host: target}
	where, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]remotecommand.Executor{}
	if all["SPDY"], err = remotecommand.NewSPDYExecutor(config, http.MethodPost, where); err != nil {
		t.Fatal(err)
	}
	if all["WebSocket v5"], err = remotecommand.NewWebSocketExecutor(config, http.MethodGet, target); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestExec(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	for name, executor := range protocols(t, c.url+"/pods/p/exec?command=echo&command=7&stdin=true&stdout=true&stderr=true") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, errs bytes.Buffer
			err := executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: strings.NewReader("hello"), Stdout: &out, Stderr: &errs})
			var exit utilexec.ExitError
			if !errors.As(err, &exit) || exit.ExitStatus() != 7 {
				t.Errorf("exec = %v, want exit code 7", err)
			}
			if got := out.String() + "|" + errs.String(); got != "c: echo 7\nHELLO|to stderr" {
				t.Errorf("exec printed %q", got)
			}
		})
	}
}

// size is a terminal that has one size.
type size struct{ given bool }

func (s *size) Next() *remotecommand.TerminalSize {
	if s.given {
		return nil
	}
	s.given = true
	return &remotecommand.TerminalSize{Width: 80, Height: 24}
}

func TestATerminalHasItsSize(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"SPDY", "WebSocket v5"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			executor := protocols(t, c.url+"/pods/p/exec?command=sh&stdout=true&tty=true")[name]
			var out bytes.Buffer
			if err := executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: &out, Tty: true, TerminalSizeQueue: &size{}}); err != nil {
				t.Fatal(err)
			}
			if got := <-c.runtime.sizes; got != (agentcommand.TerminalSize{Width: 80, Height: 24}) {
				t.Errorf("size = %v", got)
			}
		})
	}
}

func TestAttach(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	for name, executor := range protocols(t, c.url+"/pods/several/attach?container=b&stdout=true") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			if err := executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: &out}); err != nil {
				t.Fatal(err)
			}
			if out.String() != "attached to b" {
				t.Errorf("attach printed %q", out.String())
			}
		})
	}
}

func TestExecNeedsThePermissionToCreate(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.refuse = true
	for name, executor := range protocols(t, c.url+"/pods/p/exec?command=a&stdout=true") {
		err := executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: io.Discard})
		if err == nil || !strings.Contains(err.Error(), "orbidden") && !strings.Contains(err.Error(), "403") {
			t.Errorf("%s: exec = %v, want forbidden", name, err)
		}
	}
}

func TestPortForward(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	target, err := url.Parse(c.url + "/pods/p/portforward")
	if err != nil {
		t.Fatal(err)
	}
	config := &rest.Config{Host: c.url}
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		t.Fatal(err)
	}
	tunnel, err := portforward.NewSPDYOverWebsocketDialerForStreaming(target, config)
	if err != nil {
		t.Fatal(err)
	}
	for name, dialer := range map[string]httpstream.Dialer{
		"SPDY":   spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, target),
		"tunnel": tunnel,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := forwarded(t, dialer); got != "p 8080 HELLO" {
				t.Errorf("forwarded = %q", got)
			}
		})
	}
}

func forwarded(t *testing.T, dialer httpstream.Dialer) string {
	t.Helper()
	stop, ready, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	forwarder, err := portforward.NewOnAddressesForStreaming(dialer, []string{"127.0.0.1"}, []string{"0:8080"}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	go func() { done <- forwarder.ForwardPorts() }()
	defer func() {
		close(stop)
		<-done
	}()
	select {
	case <-ready:
	case err := <-done:
		done <- err
		t.Fatalf("forward: %v", err)
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(ports[0].Local))))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "hello"); err != nil {
		t.Fatal(err)
	}
	text := make([]byte, len("p 8080 HELLO"))
	if _, err := io.ReadFull(conn, text); err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestADefaultContainerIsTaken(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: map[string]string{defaultContainer: "b"}}}
	pod.Spec.Containers = []corev1.Container{{Name: "a"}, {Name: "b"}}
	pod.Spec.InitContainers = []corev1.Container{{Name: "setup"}}
	pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug"}}}
	for wanted, want := range map[string]string{"": "b", "a": "a", "setup": "setup", "debug": "debug"} {
		if got, err := containerOf(pod, wanted); got != want || err != nil {
			t.Errorf("containerOf(%q) = %q, %v, want %q", wanted, got, err, want)
		}
	}
}

func FuzzStreamParameters(f *testing.F) {
	f.Add("container=c&tailLines=5&sinceTime=2026-03-01T12:00:00Z", "https:name:80")
	f.Add("limitBytes=-1&sinceSeconds=x", "a:b:c:d")
	f.Fuzz(func(t *testing.T, query, name string) {
		values, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		if opts, err := logOptions(values, "p"); err == nil && opts.TailLines != nil && *opts.TailLines < 0 {
			t.Errorf("%q has a negative tail", query)
		}
		if to, err := targetOf(name); err == nil && strings.ContainsAny(to.name, "/?#@ ") {
			t.Errorf("%q is the place %v", name, to)
		}
	})
}
