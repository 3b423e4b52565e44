package ingress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
)

// Config is what a server needs. Listeners are the server's, and closed by it.
type Config struct {
	HTTP, HTTPS net.Listener
	// Backends are whom requests for a target can be sent to.
	Backends func(Target) []netip.AddrPort
	// Secret reads one; it is asked at handshakes, and may take a moment.
	Secret func(ctx context.Context, namespace, name string) (*v1.Secret, error)
	Log    *slog.Logger
}

const (
	// headersWithin bounds how long a client may take to ask, idleFor how long it
	// may keep a connection without asking.
	headersWithin = 10 * time.Second
	idleFor       = 2 * time.Minute
	// connectWithin is for one backend of several.
	connectWithin = 5 * time.Second
	// drainWithin is how long requests may go on when the server ends.
	drainWithin = 5 * time.Second
)

// Server answers by its table.
type Server struct {
	cfg   Config
	table atomic.Pointer[Table]
	proxy *httputil.ReverseProxy
	keys  *keys
	// requests by what became of them.
	requests *prometheus.CounterVec
}

// New makes a server, which knows no Ingress.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, keys: newKeys(cfg.Secret, cfg.Log), requests: newRequests()}
	s.proxy = &httputil.ReverseProxy{
		Rewrite: rewrite, Transport: newTransport(), ErrorHandler: s.failed,
		ErrorLog: slog.NewLogLogger(cfg.Log.Handler(), slog.LevelDebug),
	}
	s.Set(NewTable(nil))
	return s
}

// Set has the server answer by another table.
func (s *Server) Set(t *Table) {
	s.table.Store(t)
	s.keys.keep(t)
}

// Run answers until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, l := range []net.Listener{s.cfg.HTTP, s.cfg.HTTPS} {
		if l == nil {
			continue
		}
		server := &http.Server{
			Handler: s, ReadHeaderTimeout: headersWithin, IdleTimeout: idleFor,
			TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: s.certificate},
			ErrorLog:  slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelDebug),
		}
		serve := server.Serve
		if l == s.cfg.HTTPS {
			serve = func(l net.Listener) error { return server.ServeTLS(l, "", "") }
		}
		group.Go(func() error {
			if err := serve(l); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("answer for ingresses: %w", err)
			}
			return nil
		})
		group.Go(func() error {
			<-ctx.Done()
			ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainWithin)
			defer cancel()
			if server.Shutdown(ending) != nil {
				server.Close()
			}
			return nil
		})
	}
	return group.Wait()
}

// ServeHTTP carries a request to one of those who are ready for it.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodConnect {
		http.Error(w, "this is no proxy for other hosts", http.StatusMethodNotAllowed)
		return
	}
	target := s.table.Load().Route(r.Host, r.URL.Path)
	if target == nil {
		s.requests.WithLabelValues(unmatched).Inc()
		http.Error(w, "no Ingress has a rule for this host and path", http.StatusNotFound)
		return
	}
	ready := s.cfg.Backends(*target)
	if len(ready) == 0 {
		s.requests.WithLabelValues(unready).Inc()
		http.Error(w, "nobody is ready to answer this", http.StatusServiceUnavailable)
		return
	}
	s.requests.WithLabelValues(forwarded).Inc()
	s.proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), readyKey{}, ready)))
}

// rewrite tells the backend who asks, and for what; what clients say of that
// themselves is not handed on.
func rewrite(r *httputil.ProxyRequest) {
	r.Out.Host = r.In.Host
	r.Out.URL.Scheme = "http"
	r.Out.URL.RawQuery = r.In.URL.RawQuery // as it came: nobody here reads it
	r.SetXForwarded()
}

// failed answers where the backend did not.
func (s *Server) failed(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() == nil { // or the client has gone
		s.cfg.Log.Warn("a backend of an Ingress does not answer", "host", r.Host, "err", err)
	}
	s.requests.WithLabelValues(failed).Inc()
	http.Error(w, "the backend does not answer", http.StatusBadGateway)
}

// certificate is the one for the host that a client names.
func (s *Server) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	secret, ok := s.table.Load().Certificate(hello.ServerName)
	if !ok {
		return nil, fmt.Errorf("no Ingress has a certificate for %q", hello.ServerName)
	}
	return s.keys.get(hello.Context(), secret)
}
