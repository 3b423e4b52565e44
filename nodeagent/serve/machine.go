package serve

import (
	"net/http"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/berth-dev/berth/nodeagent/pod"
)

// machineLogs serves the machine's log folder, as a kubelet does below /logs/.
// Links that lead out of it are not followed: pods may be given this folder.
func (s *Server) machineLogs() http.Handler {
	dir := s.cfg.LogDir
	if dir == "" {
		dir = "/var/log"
	}
	return http.StripPrefix("/logs/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		root, err := os.OpenRoot(dir)
		if err != nil {
			http.Error(w, "the machine's logs cannot be read: "+err.Error(), http.StatusNotFound)
			return
		}
		defer root.Close()
		http.FileServerFS(root.FS()).ServeHTTP(w, r)
	}))
}

// metrics tells of the agent's own process, and in the kubelet's names of what
// runs.
func (s *Server) metrics() http.Handler {
	registry := prometheus.NewRegistry()
	gauge := func(name, help string, labels prometheus.Labels, count func(*pod.Record) int) {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, func() float64 {
			n := 0
			s.cfg.Pods.Each(func(r *pod.Record) { n += count(r) })
			return float64(n)
		}))
	}
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	registry.MustRegister(s.cfg.Metrics...)
	gauge("kubelet_running_pods", "Number of pods that have a running pod sandbox", nil, func(r *pod.Record) int {
		if r.Sandbox.ID != "" && r.Sandbox.Ready {
			return 1
		}
		return 0
	})
	gauge("kubelet_running_containers", "Number of containers currently running", prometheus.Labels{"container_state": "running"}, func(r *pod.Record) int {
		n := 0
		for _, c := range r.Containers {
			if c.Phase == pod.Running {
				n++
			}
		}
		return n
	})
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}
