package usage

import (
	"context"
	"slices"
	"time"

	"github.com/berth-dev/berth/host/store"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// NodeMetrics gives the use of the nodes of which there are two reports.
func (m *Meter) NodeMetrics(ctx context.Context) ([]metricsv1beta1.NodeMetrics, error) {
	var out []metricsv1beta1.NodeMetrics
	for name, r := range m.pairs() {
		used, ok := between(sample(r.former.Node.CPU, r.former.Node.Memory), sample(r.latest.Node.CPU, r.latest.Node.Memory))
		if !ok {
			continue
		}
		out = append(out, metricsv1beta1.NodeMetrics{
			ObjectMeta: m.meta(ctx, "nodes", "", name), Timestamp: metav1.NewTime(used.at),
			Window: metav1.Duration{Duration: used.window}, Usage: used.list,
		})
	}
	return out, nil
}

// PodMetrics gives the use of pods in a namespace, or in all of them by "".
func (m *Meter) PodMetrics(ctx context.Context, namespace string) ([]metricsv1beta1.PodMetrics, error) {
	var out []metricsv1beta1.PodMetrics
	for _, r := range m.pairs() {
		former := byUID(r.former.Pods)
		for _, pod := range r.latest.Pods {
			if namespace != "" && pod.PodRef.Namespace != namespace {
				continue
			}
			if metrics, ok := podMetrics(former[pod.PodRef.UID], pod); ok {
				metrics.ObjectMeta = m.meta(ctx, "pods", pod.PodRef.Namespace, pod.PodRef.Name)
				out = append(out, metrics)
			}
		}
	}
	return out, nil
}

// Pod gives the use of one pod.
func (m *Meter) Pod(pod *corev1.Pod) (metricsv1beta1.PodMetrics, bool) {
	m.mu.Lock()
	r := m.nodes[pod.Spec.NodeName]
	m.mu.Unlock()
	if r.former == nil {
		return metricsv1beta1.PodMetrics{}, false
	}
	is := func(s statsv1alpha1.PodStats) bool { return s.PodRef.UID == string(pod.UID) }
	former, latest := slices.IndexFunc(r.former.Pods, is), slices.IndexFunc(r.latest.Pods, is)
	if former < 0 || latest < 0 {
		return metricsv1beta1.PodMetrics{}, false
	}
	return podMetrics(byUID(r.former.Pods[former : former+1])[string(pod.UID)], r.latest.Pods[latest])
}

// podMetrics tells the use of a pod whose containers are all in both reports:
// part of a pod would be taken for the whole.
func podMetrics(former map[string]statsv1alpha1.ContainerStats, latest statsv1alpha1.PodStats) (metricsv1beta1.PodMetrics, bool) {
	var out metricsv1beta1.PodMetrics
	for _, c := range latest.Containers {
		old := former[c.Name]
		if !old.StartTime.Equal(&c.StartTime) {
			return out, false
		}
		used, ok := between(sample(old.CPU, old.Memory), sample(c.CPU, c.Memory))
		if !ok {
			return out, false
		}
		out.Containers = append(out.Containers, metricsv1beta1.ContainerMetrics{Name: c.Name, Usage: used.list})
		out.Timestamp, out.Window = metav1.NewTime(used.at), metav1.Duration{Duration: used.window}
	}
	return out, len(out.Containers) > 0
}

func byUID(pods []statsv1alpha1.PodStats) map[string]map[string]statsv1alpha1.ContainerStats {
	out := make(map[string]map[string]statsv1alpha1.ContainerStats, len(pods))
	for _, p := range pods {
		containers := make(map[string]statsv1alpha1.ContainerStats, len(p.Containers))
		for _, c := range p.Containers {
			containers[c.Name] = c
		}
		out[p.PodRef.UID] = containers
	}
	return out
}

// pairs are the nodes of which a rate can be told.
func (m *Meter) pairs() map[string]reports {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make(map[string]reports, len(m.nodes))
	for name, r := range m.nodes {
		if r.former != nil {
			out[name] = r
		}
	}
	return out
}

// meta names what is measured, with the labels that selectors look for.
func (m *Meter) meta(ctx context.Context, resource, namespace, name string) metav1.ObjectMeta {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	if object, err := m.objects.Get(ctx, store.Key{Resource: resource, Namespace: namespace, Name: name}); err == nil {
		meta.Labels, meta.CreationTimestamp = object.GetLabels(), object.GetCreationTimestamp()
	}
	return meta
}

// reading is CPU time and memory at one moment.
type reading struct {
	at     time.Time
	nanos  uint64
	memory uint64
}

func sample(cpu *statsv1alpha1.CPUStats, memory *statsv1alpha1.MemoryStats) (r reading) {
	if cpu == nil || cpu.UsageCoreNanoSeconds == nil || memory == nil || memory.WorkingSetBytes == nil {
		return reading{}
	}
	return reading{at: cpu.Time.Time, nanos: *cpu.UsageCoreNanoSeconds, memory: *memory.WorkingSetBytes}
}

type use struct {
	at     time.Time
	window time.Duration
	list   corev1.ResourceList
}

// between is the use from one reading to the next. A counter that fell began
// anew, and a clock that stood still gives no rate.
func between(former, latest reading) (use, bool) {
	window := latest.at.Sub(former.at)
	if former.at.IsZero() || window <= 0 || latest.nanos < former.nanos {
		return use{}, false
	}
	rate := float64(latest.nanos-former.nanos) / window.Seconds()
	return use{at: latest.at, window: window, list: corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewScaledQuantity(int64(min(rate, most)), resource.Nano),
		corev1.ResourceMemory: *resource.NewQuantity(int64(min(latest.memory, most)), resource.BinarySI),
	}}, true
}

// most is beyond any machine: an agent may report anything, and a quantity has
// one bit less than its counters.
const most = 1 << 62
