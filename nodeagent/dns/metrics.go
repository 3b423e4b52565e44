package dns

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// counts are of queries by who answered them, and of servers that did not.
type counts struct {
	cluster, cached, forwarded, stale, searched, refused, failed atomic.Uint64
	failures                                                     atomic.Uint64
	asked                                                        atomic.Uint64
	nanos                                                        atomic.Uint64
}

func (c *counts) took(d time.Duration) {
	c.asked.Add(1)
	c.nanos.Add(uint64(d))
}

var (
	queries  = prometheus.NewDesc("berth_dns_queries_total", "Queries by what answered them: cluster (Services and pods), search (a pod's search path), cache, forward, stale (an old answer, as no resolver gave a new one), refused (malformed, not offered, or too many at a time), failed (no resolver answered).", []string{"answer"}, nil)
	failures = prometheus.NewDesc("berth_dns_upstream_failures_total", "Questions that one of the machine's resolvers did not answer.", nil, nil)
	upstream = prometheus.NewDesc("berth_dns_upstream_seconds", "How long the machine's resolvers took to answer.", nil, nil)
	names    = prometheus.NewDesc("berth_dns_names", "Names and addresses of the cluster that are answered.", nil, nil)
	entries  = prometheus.NewDesc("berth_dns_cache_entries", "Answers of the machine's resolvers that are kept.", nil, nil)
)

// Describe implements prometheus.Collector.
func (s *Server) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{queries, failures, upstream, names, entries} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (s *Server) Collect(out chan<- prometheus.Metric) {
	c := &s.counts
	for answer, n := range map[string]*atomic.Uint64{
		"cluster": &c.cluster, "search": &c.searched, "cache": &c.cached, "forward": &c.forwarded, "stale": &c.stale, "refused": &c.refused, "failed": &c.failed,
	} {
		out <- prometheus.MustNewConstMetric(queries, prometheus.CounterValue, float64(n.Load()), answer)
	}
	out <- prometheus.MustNewConstMetric(failures, prometheus.CounterValue, float64(c.failures.Load()))
	out <- prometheus.MustNewConstSummary(upstream, c.asked.Load(), float64(c.nanos.Load())/1e9, nil)
	out <- prometheus.MustNewConstMetric(names, prometheus.GaugeValue, float64(s.size()))
	out <- prometheus.MustNewConstMetric(entries, prometheus.GaugeValue, float64(s.cache.size()))
}
