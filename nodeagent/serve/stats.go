package serve

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/berth-dev/berth/nodeagent/pod"
	"github.com/berth-dev/berth/nodeagent/runtime"
)

// Summary is the part of the kubelet's /stats/summary that is served.
type Summary struct {
	Node Stats      `json:"node"`
	Pods []PodStats `json:"pods"`
}

// Stats of a node, pod or container.
type Stats struct {
	NodeName  string    `json:"nodeName,omitempty"`
	Name      string    `json:"name,omitempty"`
	StartTime time.Time `json:"startTime"`
	CPU       CPU       `json:"cpu"`
	Memory    Memory    `json:"memory"`
	FS        *FS       `json:"fs,omitempty"`
}

// PodStats of one pod.
type PodStats struct {
	PodRef     PodRef    `json:"podRef"`
	StartTime  time.Time `json:"startTime"`
	Containers []Stats   `json:"containers"`
	CPU        CPU       `json:"cpu"`
	Memory     Memory    `json:"memory"`
}

// PodRef names a pod.
type PodRef struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	UID       string `json:"uid"`
}

// CPU used since the start.
type CPU struct {
	Time                 time.Time `json:"time"`
	UsageCoreNanoSeconds uint64    `json:"usageCoreNanoSeconds"`
}

// Memory in use.
type Memory struct {
	Time            time.Time `json:"time"`
	UsageBytes      uint64    `json:"usageBytes"`
	WorkingSetBytes uint64    `json:"workingSetBytes"`
}

// FS is a filesystem.
type FS struct {
	CapacityBytes  uint64 `json:"capacityBytes"`
	AvailableBytes uint64 `json:"availableBytes"`
}

// measure gathers what /stats/summary and /metrics/resource tell.
func (s *Server) measure(ctx context.Context) (Summary, error) {
	stats, err := s.cfg.Runtime.Stats(ctx)
	if err != nil {
		return Summary{}, err
	}
	now := time.Now()
	n := s.cfg.Node(ctx)
	sum := Summary{Node: Stats{
		NodeName: n.Name, StartTime: n.StartTime, CPU: CPU{now, n.CPUNanos}, Memory: Memory{now, n.Memory, n.WorkingSet},
		FS: &FS{n.FSCapacity, n.FSAvailable},
	}}
	by := map[string][]runtime.Stats{}
	for _, c := range stats {
		by[c.Pod.UID] = append(by[c.Pod.UID], c)
	}
	s.cfg.Pods.Each(func(rec *pod.Record) {
		p := PodStats{PodRef: PodRef{rec.Pod.Name, rec.Pod.Namespace, string(rec.Pod.UID)}, StartTime: rec.StartTime}
		for _, c := range by[string(rec.Pod.UID)] {
			start := rec.StartTime
			if known := rec.Containers[c.Name]; known != nil {
				start = known.StartedAt
			}
			p.Containers = append(p.Containers, Stats{
				Name: c.Name, StartTime: start, CPU: CPU{c.Time, c.CPUNanos}, Memory: Memory{c.Time, c.MemoryBytes, c.WorkingSetBytes},
			})
			p.CPU.Time, p.Memory.Time = c.Time, c.Time
			p.CPU.UsageCoreNanoSeconds += c.CPUNanos
			p.Memory.UsageBytes += c.MemoryBytes
			p.Memory.WorkingSetBytes += c.WorkingSetBytes
		}
		if len(p.Containers) > 0 {
			slices.SortFunc(p.Containers, func(a, b Stats) int { return cmp.Compare(a.Name, b.Name) })
			sum.Pods = append(sum.Pods, p)
		}
	})
	slices.SortFunc(sum.Pods, func(a, b PodStats) int {
		return cmp.Or(cmp.Compare(a.PodRef.Namespace, b.PodRef.Namespace), cmp.Compare(a.PodRef.Name, b.PodRef.Name))
	})
	return sum, nil
}

func (s *Server) summary(w http.ResponseWriter, r *http.Request) {
	sum, err := s.measure(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(sum); err != nil {
		s.cfg.Log.Debug("answer /stats/summary", "error", err)
	}
}

// resource answers in Prometheus' text format, with the kubelet's metric names.
func (s *Server) resource(w http.ResponseWriter, r *http.Request) {
	sum, err := s.measure(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	line := func(name, labels string, value float64, at time.Time) {
		fmt.Fprintf(w, "%s%s %g %d\n", name, labels, value, at.UnixMilli())
	}
	seconds := func(c CPU) float64 { return float64(c.UsageCoreNanoSeconds) / 1e9 }
	fmt.Fprintln(w, "# TYPE node_cpu_usage_seconds_total counter")
	line("node_cpu_usage_seconds_total", "", seconds(sum.Node.CPU), sum.Node.CPU.Time)
	fmt.Fprintln(w, "# TYPE node_memory_working_set_bytes gauge")
	line("node_memory_working_set_bytes", "", float64(sum.Node.Memory.WorkingSetBytes), sum.Node.Memory.Time)
	fmt.Fprintln(w, "# TYPE container_cpu_usage_seconds_total counter")
	each(sum, func(p PodStats, c Stats) {
		line("container_cpu_usage_seconds_total", containerLabels(p, c), seconds(c.CPU), c.CPU.Time)
	})
	fmt.Fprintln(w, "# TYPE container_memory_working_set_bytes gauge")
	each(sum, func(p PodStats, c Stats) {
		line("container_memory_working_set_bytes", containerLabels(p, c), float64(c.Memory.WorkingSetBytes), c.Memory.Time)
	})
	fmt.Fprintln(w, "# TYPE container_start_time_seconds gauge")
	each(sum, func(p PodStats, c Stats) {
		line("container_start_time_seconds", containerLabels(p, c), float64(c.StartTime.UnixNano())/1e9, c.CPU.Time)
	})
}

func each(sum Summary, f func(PodStats, Stats)) {
	for _, p := range sum.Pods {
		for _, c := range p.Containers {
			f(p, c)
		}
	}
}

func containerLabels(p PodStats, c Stats) string {
	return fmt.Sprintf("{container=%q,namespace=%q,pod=%q}", c.Name, p.PodRef.Namespace, p.PodRef.Name)
}
