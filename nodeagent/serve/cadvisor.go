package serve

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/berth-dev/berth/nodeagent/pod"
	"github.com/berth-dev/berth/nodeagent/runtime"
)

// cadvisor answers /metrics/cadvisor: what containers use, in the names and with
// the labels that dashboards for the kubelet ask for. What cAdvisor tells of
// networks and disks beside is left out.
func (s *Server) cadvisor(w http.ResponseWriter, r *http.Request) {
	stats, err := s.cfg.Runtime.Stats(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(usage{s.named(stats), s.cfg.Node(r.Context())})
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, r)
}

// named are measurements with what their pods' records know.
type named struct {
	runtime.Stats
	image   string
	started time.Time
}

func (s *Server) named(stats []runtime.Stats) []named {
	all := make([]named, 0, len(stats))
	by := map[string][]runtime.Stats{}
	for _, one := range stats {
		by[one.Pod.UID] = append(by[one.Pod.UID], one)
	}
	s.cfg.Pods.Each(func(r *pod.Record) {
		for _, one := range by[string(r.Pod.UID)] {
			if c := r.Containers[one.Name]; c != nil {
				all = append(all, named{one, c.Image, c.StartedAt})
			}
		}
	})
	return all
}

var (
	containerVariables = []string{"container", "id", "image", "name", "namespace", "pod"}

	cpuUsed    = prometheus.NewDesc("container_cpu_usage_seconds_total", "Cumulative cpu time consumed in seconds.", append([]string{"cpu"}, containerVariables...), nil)
	memoryUsed = prometheus.NewDesc("container_memory_usage_bytes", "Current memory usage in bytes, including all memory regardless of when it was accessed", containerVariables, nil)
	workingSet = prometheus.NewDesc("container_memory_working_set_bytes", "Current working set in bytes.", containerVariables, nil)
	processes  = prometheus.NewDesc("container_processes", "Number of processes running inside the container.", containerVariables, nil)
	startTime  = prometheus.NewDesc("container_start_time_seconds", "Start time of the container since unix epoch in seconds.", containerVariables, nil)
	memoryHas  = prometheus.NewDesc("machine_memory_bytes", "Amount of memory installed on the machine.", nil, nil)
	cpuHas     = prometheus.NewDesc("machine_cpu_cores", "Number of logical CPU cores.", nil, nil)
)

// usage is one look at the machine, as a collector.
type usage struct {
	containers []named
	node       NodeStats
}

// Describe implements prometheus.Collector.
func (u usage) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{cpuUsed, memoryUsed, workingSet, processes, startTime, memoryHas, cpuHas} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (u usage) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.MustNewConstMetric(memoryHas, prometheus.GaugeValue, float64(u.node.MemoryCapacity))
	out <- prometheus.MustNewConstMetric(cpuHas, prometheus.GaugeValue, float64(u.node.CPUs))
	for i := range u.containers {
		c := &u.containers[i]
		labels := []string{c.Name, c.ID, c.image, c.ID, c.Pod.Namespace, c.Pod.Name}
		send := func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
			out <- prometheus.NewMetricWithTimestamp(c.Time, prometheus.MustNewConstMetric(d, kind, value, labels...))
		}
		send(cpuUsed, prometheus.CounterValue, float64(c.CPUNanos)/1e9, append([]string{"total"}, labels...)...)
		send(memoryUsed, prometheus.GaugeValue, float64(c.MemoryBytes), labels...)
		send(workingSet, prometheus.GaugeValue, float64(c.WorkingSetBytes), labels...)
		send(processes, prometheus.GaugeValue, float64(c.Pids), labels...)
		send(startTime, prometheus.GaugeValue, float64(c.started.UnixNano())/1e9, labels...)
	}
}
