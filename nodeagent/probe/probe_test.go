package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/record"

	"github.com/berth-dev/berth/nodeagent/runtime"
)

// unavailable is the code of a runtime that does not answer, missing that of a command
// that it can not start.
const (
	unavailable = -2
	missing     = -3
)

// script answers exec probes with exit codes in turn, the last for ever.
type script struct {
	mu    sync.Mutex
	codes []int32
	asked []time.Time
	args  []string
}

func (s *script) Exec(ctx context.Context, _ string, cfg runtime.ExecConfig) (int32, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked, s.args = append(s.asked, time.Now()), cfg.Args
	code := s.codes[0]
	if len(s.codes) > 1 {
		s.codes = s.codes[1:]
	}
	switch code {
	case unavailable:
		return 0, errors.New("unavailable")
	case missing:
		return 0, fmt.Errorf("%w: no such file", runtime.ErrStart)
	}
	if code < 0 {
		s.mu.Unlock()
		<-ctx.Done()
		s.mu.Lock()
		return 0, ctx.Err()
	}
	return code, nil
}

func (s *script) times() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked)
}

type watcher struct {
	mu   sync.Mutex
	last Standing
	told int
}

func (w *watcher) tell(_, _ string, s Standing) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = s
	w.told++
}

func (w *watcher) expect(t *testing.T, want Standing) {
	t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last != want {
		t.Errorf("standing %+v, want %+v", w.last, want)
	}
}

func execProbe(p v1.Probe) *v1.Probe {
	p.Exec = &v1.ExecAction{Command: []string{"x"}}
	return &p
}

// inBubble runs a prober over one container in a bubble of its own time.
func inBubble(t *testing.T, c v1.Container, codes []int32, f func(p *Prober, s *script, w *watcher)) {
	synctest.Test(t, func(t *testing.T) {
		s, w := &script{codes: codes}, &watcher{}
		p := New(s, record.NewFakeRecorder(1000))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx) }()
		c.Name = "app"
		p.Set("u", []Target{{Pod: &v1.Pod{}, Container: &c, ID: "1", StartedAt: time.Now()}}, w.tell)
		f(p, s, w)
		cancel()
		<-done
	})
}

func TestReadinessNeedsItsThresholds(t *testing.T) {
	t.Parallel()
	c := v1.Container{ReadinessProbe: execProbe(v1.Probe{InitialDelaySeconds: 5, PeriodSeconds: 2, SuccessThreshold: 2, FailureThreshold: 3})}
	inBubble(t, c, []int32{0, 0, 1, 1, 0, 1, 1, 1}, func(_ *Prober, s *script, w *watcher) {
		time.Sleep(4900 * time.Millisecond)
		if s.times() != 0 {
			t.Errorf("asked before the initial delay")
		}
		time.Sleep(200 * time.Millisecond) // 5.1 s: one success
		w.expect(t, Standing{})
		time.Sleep(2 * time.Second) // two
		w.expect(t, Standing{Started: true, Ready: true})
		time.Sleep(6 * time.Second) // fail, fail, success: not three in a row
		w.expect(t, Standing{Started: true, Ready: true})
		time.Sleep(6 * time.Second) // three failures
		w.expect(t, Standing{Started: true})
	})
}

func TestLivenessKillsAfterItsThreshold(t *testing.T) {
	t.Parallel()
	c := v1.Container{LivenessProbe: execProbe(v1.Probe{PeriodSeconds: 1, FailureThreshold: 2})}
	inBubble(t, c, []int32{0, 1}, func(_ *Prober, s *script, w *watcher) {
		time.Sleep(1100 * time.Millisecond)
		w.expect(t, Standing{})
		time.Sleep(time.Second)
		w.expect(t, Standing{Started: true, Ready: true, Unhealthy: "Container app failed liveness probe, will be restarted"})
		asked := s.times()
		time.Sleep(time.Minute)
		if s.times() != asked {
			t.Errorf("a container that is to be killed is still asked")
		}
	})
}

// A runtime that is away says nothing about a container, and neither does a command that
// is not in its image.
func TestWhatCouldNotBeAskedDoesNotCount(t *testing.T) {
	t.Parallel()
	for name, code := range map[string]int32{"the runtime is away": unavailable, "the command is missing": missing} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := v1.Container{LivenessProbe: execProbe(v1.Probe{PeriodSeconds: 1, FailureThreshold: 2})}
			inBubble(t, c, []int32{0, 1, code}, func(_ *Prober, s *script, w *watcher) {
				time.Sleep(time.Minute)
				if s.times() < 60 {
					t.Errorf("asked %d times, want it asked on", s.times())
				}
				synctest.Wait()
				w.mu.Lock()
				defer w.mu.Unlock()
				if w.last.Unhealthy != "" {
					t.Errorf("standing %+v", w.last)
				}
			})
		})
	}
}

func TestACommandIsExpandedByTheSpecsValues(t *testing.T) {
	t.Parallel()
	p := &v1.Probe{PeriodSeconds: 1}
	p.Exec = &v1.ExecAction{Command: []string{"nc", "$(PORT)", "$(SECRET)", "$(OTHER)", "$$(PORT)"}}
	c := v1.Container{ReadinessProbe: p, Env: []v1.EnvVar{{Name: "PORT", Value: "8080"}, {Name: "SECRET", ValueFrom: &v1.EnvVarSource{}}}}
	inBubble(t, c, []int32{0}, func(_ *Prober, s *script, w *watcher) {
		w.expect(t, Standing{Started: true, Ready: true})
		if got := strings.Join(s.args, " "); got != "nc 8080  $(OTHER) $(PORT)" {
			t.Errorf("it runs %q", got)
		}
	})
}

func TestStartupHoldsTheOthersBack(t *testing.T) {
	t.Parallel()
	c := v1.Container{
		StartupProbe:   execProbe(v1.Probe{PeriodSeconds: 10, FailureThreshold: 5}),
		ReadinessProbe: &v1.Probe{PeriodSeconds: 1, ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"x"}}}},
	}
	inBubble(t, c, []int32{1, 1, 0}, func(_ *Prober, s *script, w *watcher) {
		time.Sleep(19 * time.Second)
		if got := s.times(); got != 2 {
			t.Errorf("asked %d times, want 2: startup only", got)
		}
		w.expect(t, Standing{})
		time.Sleep(3 * time.Second)
		w.expect(t, Standing{Started: true, Ready: true})
	})
}

func TestProbeThatHangsFails(t *testing.T) {
	t.Parallel()
	c := v1.Container{LivenessProbe: execProbe(v1.Probe{PeriodSeconds: 10, TimeoutSeconds: 3, FailureThreshold: 1})}
	inBubble(t, c, []int32{-1}, func(_ *Prober, _ *script, w *watcher) {
		time.Sleep(2900 * time.Millisecond)
		w.expect(t, Standing{})
		time.Sleep(200 * time.Millisecond)
		if w.expect(t, Standing{Started: true, Ready: true, Unhealthy: "Container app failed liveness probe, will be restarted"}); w.told != 1 {
			t.Errorf("told %d times", w.told)
		}
	})
}

func TestDroppedPodIsNotAsked(t *testing.T) {
	t.Parallel()
	c := v1.Container{ReadinessProbe: execProbe(v1.Probe{PeriodSeconds: 1})}
	inBubble(t, c, []int32{0}, func(p *Prober, s *script, _ *watcher) {
		time.Sleep(3500 * time.Millisecond)
		p.Drop("u")
		asked := s.times()
		time.Sleep(time.Minute)
		if s.times() != asked {
			t.Errorf("asked %d times after it was dropped", s.times()-asked)
		}
	})
}

func targetAt(t *testing.T, address string) (Target, int) {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return Target{IP: host, Container: &v1.Container{Name: "c", Ports: []v1.ContainerPort{{Name: "web", ContainerPort: int32(n)}}}}, n
}

func TestHTTPProbe(t *testing.T) {
	t.Parallel()
	var elsewhere atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/ok":
			if r.Host == "virtual" && r.Header.Get("X-A") == "1" && strings.HasPrefix(r.UserAgent(), "kube-probe/") {
				return
			}
			w.WriteHeader(500)
		case "/away":
			http.Redirect(w, r, "http://elsewhere.invalid/", http.StatusFound)
		case "/round":
			elsewhere.Add(1)
			http.Redirect(w, r, "/bad", http.StatusFound)
		default:
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	u, _ := url.Parse(server.URL)
	target, _ := targetAt(t, u.Host)
	for path, want := range map[string]bool{"/ok": true, "/away": true, "/round": false, "/bad": false} {
		a := ask(t.Context(), nil, target, &v1.Probe{ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Path: path, Port: intstr.FromString("web"),
			HTTPHeaders: []v1.HTTPHeader{{Name: "Host", Value: "virtual"}, {Name: "X-A", Value: "1"}}}}})
		if a.OK != want {
			t.Errorf("%s: %+v, want ok %v", path, a, want)
		}
	}
	a := ask(t.Context(), nil, target, &v1.Probe{ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Port: intstr.FromString("nope")}}})
	if a.OK || a.Err == nil || !strings.Contains(a.Err.Error(), `has no port "nope"`) {
		t.Errorf("unknown port: %+v", a)
	}
}

func TestTCPProbe(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	target, port := targetAt(t, l.Addr().String())
	probe := &v1.Probe{ProbeHandler: v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Port: intstr.FromInt32(int32(port))}}}
	if a := ask(t.Context(), nil, target, probe); !a.OK {
		t.Errorf("an open port: %+v", a)
	}
	l.Close()
	if a := ask(t.Context(), nil, target, probe); a.OK {
		t.Errorf("a closed port: %+v", a)
	}
}

func TestGRPCProbe(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, checks := grpc.NewServer(), health.NewServer()
	healthpb.RegisterHealthServer(server, checks)
	go server.Serve(l)
	defer server.Stop()
	checks.SetServingStatus("good", healthpb.HealthCheckResponse_SERVING)
	checks.SetServingStatus("bad", healthpb.HealthCheckResponse_NOT_SERVING)
	target, port := targetAt(t, l.Addr().String())
	for service, want := range map[string]bool{"": true, "good": true, "bad": false, "none": false} {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		a := ask(ctx, nil, target, &v1.Probe{ProbeHandler: v1.ProbeHandler{GRPC: &v1.GRPCAction{Port: int32(port), Service: &service}}})
		cancel()
		if a.OK != want {
			t.Errorf("service %q: %+v, want ok %v", service, a, want)
		}
	}
}
