package isolation

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// counts are of changes that were carried to the kernel.
type counts struct {
	isolated, sets, failures, applied, nanos atomic.Uint64
}

func (c *counts) took(d time.Duration) {
	c.applied.Add(1)
	c.nanos.Add(uint64(d))
}

var (
	isolatedNow = prometheus.NewDesc("berth_network_policy_addresses", "Addresses of this machine's pods that network policies isolate.", nil, nil)
	setsNow     = prometheus.NewDesc("berth_network_policy_sets", "Sets of peers that this machine's network policies come to.", nil, nil)
	changes     = prometheus.NewDesc("berth_network_policy_change_seconds", "How long changes of policies, namespaces and pods took, from when the agent heard of the first of them until the kernel goes by them.", nil, nil)
	failures    = prometheus.NewDesc("berth_network_policy_failures_total", "Changes of network policies' rules that the kernel refused; they are tried again.", nil, nil)
	denied      = prometheus.NewDesc("berth_network_policy_denied_packets_total", "Packets that network policies refused to or from this machine's pods, by the pod's direction.", []string{"direction"}, nil)
)

// Describe implements prometheus.Collector.
func (i *Isolation) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{isolatedNow, setsNow, changes, failures, denied} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (i *Isolation) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.MustNewConstMetric(isolatedNow, prometheus.GaugeValue, float64(i.counts.isolated.Load()))
	out <- prometheus.MustNewConstMetric(setsNow, prometheus.GaugeValue, float64(i.counts.sets.Load()))
	out <- prometheus.MustNewConstSummary(changes, i.counts.applied.Load(), float64(i.counts.nanos.Load())/1e9, nil)
	out <- prometheus.MustNewConstMetric(failures, prometheus.CounterValue, float64(i.counts.failures.Load()))
	ingress, egress, err := i.cfg.Kernel.Denied()
	if err != nil {
		i.cfg.Log.Warn("count what network policies refused", "err", err)
		return
	}
	out <- prometheus.MustNewConstMetric(denied, prometheus.CounterValue, float64(ingress), "ingress")
	out <- prometheus.MustNewConstMetric(denied, prometheus.CounterValue, float64(egress), "egress")
}
