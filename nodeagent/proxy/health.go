package proxy

import (
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/nodeagent/service"
)

// health answers load balancers that ask on a service's healthCheckNodePort
// whether this node has endpoints of it.
type health struct {
	log *slog.Logger

	mu      sync.Mutex
	answers map[uint16]service.Health
	servers map[uint16]*http.Server
}

func newHealth(log *slog.Logger) *health {
	return &health{log: log, answers: map[uint16]service.Health{}, servers: map[uint16]*http.Server{}}
}

// set says what to answer from now on: ports that are not named are closed.
func (h *health) set(want map[uint16]service.Health) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answers = want
	for port, s := range h.servers {
		if _, stays := want[port]; !stays {
			s.Close()
			delete(h.servers, port)
		}
	}
	for port, a := range want {
		if h.servers[port] == nil {
			h.listen(port, a.Service)
		}
	}
}

// listen opens a port; one that is taken is tried again at the next change.
func (h *health) listen(port uint16, name types.NamespacedName) {
	l, err := net.Listen("tcp", ":"+strconv.Itoa(int(port)))
	if err != nil {
		h.log.Error("load balancers cannot ask for a service's health", "service", name.String(), "err", err)
		return
	}
	s := &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { h.answer(w, port) }),
		ReadHeaderTimeout: 5 * time.Second,
	}
	h.servers[port] = s
	go s.Serve(l) //nolint:errcheck // it ends by Close
}

// answer is kube-proxy's, which load balancers know.
func (h *health) answer(w http.ResponseWriter, port uint16) {
	h.mu.Lock()
	a, ok := h.answers[port]
	h.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("X-Load-Balancing-Endpoint-Weight", strconv.Itoa(a.LocalReady))
	if !ok || a.LocalReady == 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	type name struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	}
	_ = json.NewEncoder(w).Encode(struct { // nobody is told that a client went
		Service        name `json:"service"`
		LocalEndpoints int  `json:"localEndpoints"`
		Healthy        bool `json:"serviceProxyHealthy"`
	}{name{a.Service.Namespace, a.Service.Name}, a.LocalReady, true})
}

func (h *health) close() { h.set(nil) }
