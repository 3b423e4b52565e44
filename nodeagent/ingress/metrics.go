package ingress

import "github.com/prometheus/client_golang/prometheus"

// What becomes of requests, as the metric says it.
const (
	forwarded = "forwarded"
	unmatched = "unmatched"
	unready   = "unready"
	failed    = "failed"
)

func newRequests() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "berth_ingress_requests_total", Help: "Requests for Ingresses, by what became of them: forwarded, unmatched (404), unready (503), failed (forwarded, and then 502).",
	}, []string{"answer"})
}

// Describe implements prometheus.Collector.
func (s *Server) Describe(out chan<- *prometheus.Desc) { s.requests.Describe(out) }

// Collect implements prometheus.Collector.
func (s *Server) Collect(out chan<- prometheus.Metric) { s.requests.Collect(out) }
