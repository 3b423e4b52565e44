package serve

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/nodeagent/image"
	"github.com/berth-dev/berth/nodeagent/pod"
	"github.com/berth-dev/berth/nodeagent/runtime"
)

// Pods finds the agent's pods; worker.Pool does.
type Pods interface {
	View(namespace, name string, f func(*pod.Record)) bool
	Each(f func(*pod.Record))
}

// Config is what a server needs.
type Config struct {
	Pods    Pods
	Runtime interface {
		runtime.Streams
		Stats(ctx context.Context) ([]runtime.Stats, error)
	}
	// Node describes the machine, for /stats/summary.
	Node func(ctx context.Context) NodeStats
	// LogDir is the machine's; /var/log unless set.
	LogDir string
	// Certificate is asked at each handshake, so that it can be renewed.
	Certificate func() (*tls.Certificate, error)
	// ClientCA signs who may connect, Clients are their common names.
	ClientCA *x509.CertPool
	Clients  []string
	// Metrics are told of at /metrics, beside the agent's own.
	Metrics []prometheus.Collector
	Log     *slog.Logger
}

// NodeStats is what is measured of the machine itself.
type NodeStats struct {
	Name        string
	StartTime   time.Time
	CPUNanos    uint64
	Memory      uint64
	WorkingSet  uint64
	FSCapacity  uint64
	FSAvailable uint64
	// MemoryCapacity and CPUs are what the machine has.
	MemoryCapacity uint64
	CPUs           int
	Inodes         uint64
	InodesFree     uint64
	// Processes run, of MaxProcesses at most.
	Processes, MaxProcesses int64
	// Images are on a disk that may be another.
	Images image.Usage
}

// Server answers the host. It is large because it has a file for each thing that the
// host asks: logs, streams, statistics, the machine's and cAdvisor's figures.
type Server struct {
	cfg    Config
	ctx    context.Context // of Serve: hijacked streams end by it
	cancel context.CancelFunc
}

// New gives a server; Serve makes it answer.
func New(cfg Config) *Server {
	ctx, cancel := context.WithCancel(context.Background())
	return &Server{cfg: cfg, ctx: ctx, cancel: cancel}
}

// Serve answers on the listener until ctx ends; then open streams are cut.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelDebug),
		TLSConfig: &tls.Config{
			MinVersion: tls.VersionTLS12, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: s.cfg.ClientCA,
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.cfg.Certificate() },
			NextProtos:     []string{"http/1.1"}, // upgrades need it
		},
	}
	stop := context.AfterFunc(ctx, func() {
		s.cancel()
		server.Close()
	})
	defer stop()
	err := server.ServeTLS(l, "", "")
	s.cancel()
	if errors.Is(err, http.ErrServerClosed) {
		return ctx.Err()
	}
	return err
}

// Handler gives the routes, behind the check of who is asking.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /pods", s.pods)
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", s.containerLogs)
	mux.HandleFunc("/exec/{namespace}/{pod}/{container}", s.exec)
	mux.HandleFunc("/attach/{namespace}/{pod}/{container}", s.attach)
	mux.HandleFunc("/portForward/{namespace}/{pod}", s.portForward)
	mux.HandleFunc("GET /stats/summary", s.summary)
	mux.HandleFunc("GET /metrics/resource", s.resource)
	mux.HandleFunc("GET /metrics/cadvisor", s.cadvisor)
	mux.Handle("GET /metrics", s.metrics())
	mux.Handle("GET /logs/", s.machineLogs())
	return s.guard(mux)
}

// guard lets only the named clients through.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
			http.Error(w, "a client certificate is needed", http.StatusUnauthorized)
			return
		}
		name := r.TLS.PeerCertificates[0].Subject.CommonName
		if !slices.Contains(s.cfg.Clients, name) {
			http.Error(w, fmt.Sprintf("%q may not use this node's agent: ask the host", name), http.StatusForbidden)
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(s.ctx, cancel)()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// target is the container that a request is about.
type target struct {
	uid, id, sandbox string
	running          bool
	tty, stdin       bool
	logPath          string
	previous         string
	waiting          string
}

// find looks the request's container up; it answers itself where there is none.
func (s *Server) find(w http.ResponseWriter, r *http.Request) (target, bool) {
	var t target
	namespace, name, container := r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container")
	known := container == ""
	ok := s.cfg.Pods.View(namespace, name, func(rec *pod.Record) {
		t.uid, t.sandbox = string(rec.Pod.UID), rec.Sandbox.ID
		spec, has := rec.Spec(container)
		if !has {
			return
		}
		known = true
		c := rec.Containers[container]
		t.id, t.running, t.logPath = c.ID, c.Phase == pod.Running, c.LogPath
		t.tty, t.stdin = spec.TTY, spec.Stdin
		if last := rec.Previous(spec); last != nil {
			t.previous = last.LogPath
		}
		if c.ID == "" {
			t.waiting = "ContainerCreating"
			if c.Wait != nil {
				t.waiting = c.Wait.Reason
			}
		}
	})
	switch {
	case !ok:
		http.Error(w, fmt.Sprintf("pod %q not found on this node", namespace+"/"+name), http.StatusNotFound)
	case !known:
		http.Error(w, fmt.Sprintf("container %q not found in pod %q", container, name), http.StatusNotFound)
	}
	return t, ok && known
}

func (s *Server) pods(w http.ResponseWriter, r *http.Request) {
	list := v1.PodList{}
	list.APIVersion, list.Kind = "v1", "PodList"
	s.cfg.Pods.Each(func(rec *pod.Record) { list.Items = append(list.Items, *rec.Pod) })
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(list); err != nil {
		s.cfg.Log.Debug("answer /pods", "err", err)
	}
}
