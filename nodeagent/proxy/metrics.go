package proxy

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// counts are of changes that were carried to the kernel.
type counts struct {
	services, failures, applied, nanos atomic.Uint64
}

func (c *counts) took(d time.Duration) {
	c.applied.Add(1)
	c.nanos.Add(uint64(d))
}

var (
	known    = prometheus.NewDesc("berth_services", "Services that this machine forwards.", nil, nil)
	changes  = prometheus.NewDesc("berth_service_change_seconds", "How long changes of Services and endpoints took, from when the agent heard of the first of them until the kernel forwards by them.", nil, nil)
	came     = prometheus.NewDesc("berth_service_connections_total", "New connections to Services, and flows of UDP, that this machine forwarded or refused. A thousand Services are told of, the others together without a name.", []string{"namespace", "service"}, nil)
	failures = prometheus.NewDesc("berth_service_failures_total", "Changes and comparisons of service rules that the kernel refused; they are tried again.", nil, nil)
)

// Describe implements prometheus.Collector.
func (p *Proxy) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{known, changes, came, failures} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (p *Proxy) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.MustNewConstMetric(known, prometheus.GaugeValue, float64(p.counts.services.Load()))
	out <- prometheus.MustNewConstSummary(changes, p.counts.applied.Load(), float64(p.counts.nanos.Load())/1e9, nil)
	out <- prometheus.MustNewConstMetric(failures, prometheus.CounterValue, float64(p.counts.failures.Load()))
	counted, err := p.cfg.Kernel.Connections()
	if err != nil {
		p.cfg.Log.Warn("services' connections are not told", "err", err)
		return
	}
	for name, n := range p.tally.add(counted) {
		out <- prometheus.MustNewConstMetric(came, prometheus.CounterValue, float64(n), name.Namespace, name.Name)
	}
}
