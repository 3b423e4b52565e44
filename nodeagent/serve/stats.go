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

// Summary is the part of the kubelet's /stats/summary that is served. Kubernetes'
// own types cut times to seconds, which is too coarse for rates over a few.
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
	// Runtime and Rlimit are a node's.
	Runtime *Runtime `json:"runtime,omitempty"`
	Rlimit  *Rlimit  `json:"rlimit,omitempty"`
}

// Runtime is the disk of images.
type Runtime struct {
	ImageFS *FS `json:"imageFs,omitempty"`
}

// Rlimit bounds processes.
type Rlimit struct {
	Time      time.Time `json:"time"`
	MaxPID    int64     `json:"maxpid"`
	Processes int64     `json:"curproc"`
}

// Processes of a pod.
type Processes struct {
	Count uint64 `json:"process_count"`
}

// PodStats of one pod.
type PodStats struct {
	PodRef     PodRef    `json:"podRef"`
	StartTime  time.Time `json:"startTime"`
	Containers []Stats   `json:"containers"`
	CPU        CPU       `json:"cpu"`
	Memory     Memory    `json:"memory"`
	Processes  Processes `json:"process_stats"`
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
	// AvailableBytes is told of nodes.
	AvailableBytes *uint64 `json:"availableBytes,omitempty"`
}

// FS is a filesystem.
type FS struct {
	Time           time.Time `json:"time"`
	CapacityBytes  uint64    `json:"capacityBytes"`
	AvailableBytes uint64    `json:"availableBytes"`
	UsedBytes      uint64    `json:"usedBytes"`
	Inodes         uint64    `json:"inodes"`
	InodesFree     uint64    `json:"inodesFree"`
	InodesUsed     uint64    `json:"inodesUsed"`
}

func disk(now time.Time, capacity, available, inodes, inodesFree uint64) *FS {
	return &FS{now, capacity, available, capacity - min(available, capacity), inodes, inodesFree, inodes - min(inodesFree, inodes)}
}

// nodeStats are the machine's.
func nodeStats(n NodeStats, now time.Time) Stats {
	available := n.MemoryCapacity - min(n.WorkingSet, n.MemoryCapacity)
	images := disk(now, uint64(n.Images.Capacity), uint64(n.Images.Available), uint64(n.Images.Inodes), uint64(n.Images.InodesFree))
	return Stats{
		NodeName: n.Name, StartTime: n.StartTime, CPU: CPU{now, n.CPUNanos}, Memory: Memory{now, n.Memory, n.WorkingSet, &available},
		FS: disk(now, n.FSCapacity, n.FSAvailable, n.Inodes, n.InodesFree), Runtime: &Runtime{ImageFS: images},
		Rlimit: &Rlimit{now, n.MaxProcesses, n.Processes},
	}
}

// measure gathers what /stats/summary and /metrics/resource tell.
func (s *Server) measure(ctx context.Context) (Summary, error) {
	stats, err := s.cfg.Runtime.Stats(ctx)
	if err != nil {
		return Summary{}, err
	}
	sum := Summary{Node: nodeStats(s.cfg.Node(ctx), time.Now()), Pods: []PodStats{}}
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
				Name: c.Name, StartTime: start, CPU: CPU{c.Time, c.CPUNanos}, Memory: Memory{c.Time, c.MemoryBytes, c.WorkingSetBytes, nil},
			})
			p.CPU.Time, p.Memory.Time = c.Time, c.Time
			p.CPU.UsageCoreNanoSeconds += c.CPUNanos
			p.Memory.UsageBytes += c.MemoryBytes
			p.Memory.WorkingSetBytes += c.WorkingSetBytes
			p.Processes.Count += c.Pids
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
		s.cfg.Log.Debug("answer /stats/summary", "err", err)
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
