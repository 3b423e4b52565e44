package usage

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/host/store"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// cluster holds objects, and what its nodes' agents answer.
type cluster struct {
	objects   []store.Object
	summaries map[string]*statsv1alpha1.Summary
}

func (c *cluster) Get(_ context.Context, key store.Key) (store.Object, error) {
	for _, o := range c.objects {
		if o.GetNamespace() == key.Namespace && o.GetName() == key.Name {
			return o, nil
		}
	}
	return nil, store.ErrNotFound
}

func (c *cluster) List(_ context.Context, resource, _ string) (out []store.Object, err error) {
	for _, o := range c.objects {
		if _, ok := o.(*corev1.Node); ok && resource == "nodes" {
			out = append(out, o)
		}
	}
	return out, nil
}

func (c *cluster) ask(_ context.Context, node, path string) ([]byte, error) {
	if s := c.summaries[node]; s != nil && path == "/stats/summary" {
		return json.Marshal(s)
	}
	return nil, errors.New("no route")
}

var start = metav1.NewTime(time.Unix(1_700_000_000, 0))

func node(name string, port int32) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": "a"}}}
	n.Status.DaemonEndpoints.KubeletEndpoint.Port = port
	return n
}

// summary is what an agent tells after some seconds, in which its one
// container used half a core and its node a whole one.
func summary(seconds uint64, started metav1.Time) *statsv1alpha1.Summary {
	at := metav1.NewTime(start.Add(time.Duration(seconds) * time.Second))
	cpu := func(milli uint64) *statsv1alpha1.CPUStats {
		used := seconds * milli * 1e6
		return &statsv1alpha1.CPUStats{Time: at, UsageCoreNanoSeconds: &used}
	}
	memory := func(bytes uint64) *statsv1alpha1.MemoryStats {
		return &statsv1alpha1.MemoryStats{Time: at, WorkingSetBytes: &bytes}
	}
	return &statsv1alpha1.Summary{
		Node: statsv1alpha1.NodeStats{NodeName: "n1", CPU: cpu(1000), Memory: memory(2 << 30)},
		Pods: []statsv1alpha1.PodStats{{
			PodRef:     statsv1alpha1.PodReference{Name: "web", Namespace: "default", UID: "u1"},
			Containers: []statsv1alpha1.ContainerStats{{Name: "main", StartTime: started, CPU: cpu(500), Memory: memory(64 << 20)}},
		}},
	}
}

type figures struct {
	Nodes, Pods map[string]string
}

func told(t *testing.T, m *Meter) figures {
	t.Helper()
	out := figures{map[string]string{}, map[string]string{}}
	write := func(list corev1.ResourceList, window metav1.Duration) string {
		return list.Cpu().String() + " " + list.Memory().String() + " in " + window.Duration.String()
	}
	nodes, err := m.NodeMetrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		out.Nodes[n.Name+" in zone "+n.Labels["zone"]] = write(n.Usage, n.Window)
	}
	pods, err := m.PodMetrics(t.Context(), "default")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods {
		out.Pods[p.Name+"/"+p.Containers[0].Name] = write(p.Containers[0].Usage, p.Window)
	}
	return out
}

func TestTellsUseBetweenTwoReports(t *testing.T) {
	t.Parallel()
	web := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"}}
	whole := figures{map[string]string{"n1 in zone a": "1 2Gi in 10s"}, map[string]string{"web/main": "500m 64Mi in 10s"}}
	alone := figures{whole.Nodes, map[string]string{}}
	none := figures{map[string]string{}, map[string]string{}}
	for _, c := range []struct {
		name    string
		reports []*statsv1alpha1.Summary
		want    figures
	}{
		{"one report tells no rate", []*statsv1alpha1.Summary{summary(10, start)}, none},
		{"two tell CPU and memory", []*statsv1alpha1.Summary{summary(10, start), summary(20, start)}, whole},
		{"the newest two count", []*statsv1alpha1.Summary{summary(2, start), summary(10, start), summary(20, start)}, whole},
		{"a container that began anew waits for its second", []*statsv1alpha1.Summary{summary(10, start), summary(20, metav1.NewTime(start.Add(time.Second)))}, alone},
		{"a clock that stands still gives no rate", []*statsv1alpha1.Summary{summary(10, start), summary(10, start)}, none},
		{"a counter that fell gives no rate", []*statsv1alpha1.Summary{summary(20, start), summary(10, start)}, none},
		{"a node that falls silent is forgotten", []*statsv1alpha1.Summary{summary(10, start), summary(20, start), nil}, none},
		{"a summary without figures gives none", []*statsv1alpha1.Summary{{}, {}}, none},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			has := &cluster{objects: []store.Object{node("n1", 10250), node("simulated", 0), web}, summaries: map[string]*statsv1alpha1.Summary{}}
			m := New(has, has.ask, slog.New(slog.DiscardHandler))
			for _, s := range c.reports {
				has.summaries["n1"] = s
				if err := m.round(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(c.want, told(t, m)); diff != "" {
				t.Error(diff)
			}
			placed := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "u1"}, Spec: corev1.PodSpec{NodeName: "n1"}}
			one, ok := m.Pod(placed)
			all, err := m.PodMetrics(t.Context(), "default")
			if err != nil || ok != (len(all) == 1) || ok && !cmp.Equal(one.Containers, all[0].Containers) {
				t.Errorf("the pod alone uses %+v, %v; among all %+v, %v", one, ok, all, err)
			}
			placed.UID = "u2"
			if other, ok := m.Pod(placed); ok {
				t.Errorf("a pod of another UID uses %+v", other)
			}
		})
	}
}

func TestForgetsNodesThatAreGone(t *testing.T) {
	t.Parallel()
	has := &cluster{objects: []store.Object{node("n1", 10250)}, summaries: map[string]*statsv1alpha1.Summary{"n1": summary(10, start)}}
	m := New(has, has.ask, slog.New(slog.DiscardHandler))
	if err := m.round(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !m.young() {
		t.Error("a node with one report is not asked again soon")
	}
	has.objects = nil
	if err := m.round(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(m.nodes) != 0 {
		t.Errorf("kept %v", m.nodes)
	}
}
