package schedule

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/host/schedule/cycle"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/policytest"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// storedPod is a pod as it comes out of a store.
func storedPod(i int, change func(*v1.Pod)) *snapshot.Pod {
	p := policytest.Pod(fmt.Sprintf("running-%07d", i), "100m", "500Mi", change)
	p.UID = types.UID(fmt.Sprintf("7d1f5a52-2f8e-4f2c-9c62-%012d", i))
	p.Labels = map[string]string{"app": fmt.Sprint("app-", i%50), "pod-template-hash": "5d9c7b8f6d"}
	p.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: "kubelet", Operation: "Update", APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`),
	}}
	data, err := p.Marshal()
	if err != nil {
		panic(err)
	}
	stored := new(v1.Pod)
	if err := stored.Unmarshal(data); err != nil {
		panic(err)
	}
	return snapshot.NewPod(stored)
}

// logRig is a core's log, without what decides.
type logRig struct {
	*core
	pods map[int]*snapshot.Pod
	n    int
}

func newLogRig(bytes, nodes int) *logRig {
	r := &logRig{core: newCore(Config{LogBytes: bytes, Clock: time.Now}), pods: map[int]*snapshot.Pod{}}
	for i := range nodes {
		r.cluster.UpsertNode(policytest.Node(fmt.Sprint("node-", i), "64", "512Gi", 110, nil))
	}
	r.cluster.ForgetAll()
	return r
}

// bind decides about a pod, and lets the one of so many binds before go.
func (r *logRig) bind(alive int, digest *framework.Digest) {
	pod, node := storedPod(r.n, nil), fmt.Sprint("node-", r.n%r.cluster.Nodes())
	r.traces.add(Trace{Namespace: "default", Name: pod.Object.Name, Digest: digest, Position: r.cluster.Seq(), Pod: pod, Outcome: Placed, Node: node})
	r.cluster.Place(pod, node)
	r.pods[r.n] = pod
	if old := r.pods[r.n-alive]; old != nil {
		r.cluster.Remove(old.UID())
		delete(r.pods, r.n-alive)
	}
	r.trim()
	r.n++
}

// refuse decides about a pod that waits, in ever new states, and is gone after ten.
func (r *logRig) refuse(digest *framework.Digest) {
	pod := storedPod(r.n/10, func(p *v1.Pod) { p.Annotations = map[string]string{"tried": fmt.Sprint(r.n)} })
	r.traces.add(Trace{
		Namespace: "default", Name: pod.Object.Name, Digest: digest, Position: r.cluster.Seq(), Pod: pod, Outcome: Refused,
		Message: fmt.Sprintf("0/5000 nodes are available: %d Insufficient cpu, %d node(s) had untolerated taints", r.n%5000, 5000-r.n%5000),
	})
	if r.n%10 == 9 {
		r.traces.gone(pod)
	}
	r.trim()
	r.n++
}

// preempt makes a pod go for another, against a budget that changes each time.
func (r *logRig) preempt(digest *framework.Digest) {
	victim, node := storedPod(2*r.n, nil), fmt.Sprint("node-", r.n%r.cluster.Nodes())
	r.cluster.Place(victim, node)
	pod := storedPod(2*r.n+1, nil)
	started := make(Starts, 400) // of some eighty pods
	b := budget(fmt.Sprint("budget-", r.n%10), 0, map[string]string{"app": fmt.Sprint("app-", r.n)})
	r.traces.add(Trace{
		Namespace: "default", Name: pod.Object.Name, UID: pod.UID(), Digest: digest, Position: r.cluster.Seq(), Pod: pod, Outcome: Refused,
		Message: "0/200 nodes are available: 200 Insufficient cpu.", Made: node,
		Preemption: &Preemption{
			Victims: []cycle.Victim{{Pod: victim, Breaks: []string{b.Name}}}, Budgets: []*cycle.Budget{cycle.NewBudget(b)}, Started: started,
		},
	})
	r.cluster.Remove(victim.UID())
	r.traces.gone(pod)
	r.trim()
	r.n++
}

func (r *logRig) node() {
	name := fmt.Sprint("node-", r.n%r.cluster.Nodes())
	r.cluster.UpsertNode(policytest.Node(name, "64", "512Gi", 110, func(n *v1.Node) { n.Labels["v"] = fmt.Sprint(r.n) }))
	r.trim()
	r.n++
}

func liveHeap() int {
	var m runtime.MemStats
	for range 2 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// TestTheLogTakesWhatItSays is no parallel test, since it looks at the heap.
func TestTheLogTakesWhatItSays(t *testing.T) {
	const limit = 4 << 20
	digest := &framework.Digest{Profile: "p"}
	tests := []struct {
		name string
		step func(*logRig)
	}{
		{"binds of pods that stay", func(r *logRig) { r.bind(1<<30, digest) }},
		{"binds of pods that go after a while", func(r *logRig) { r.bind(200, digest) }},
		{"pods that are refused again and again", func(r *logRig) { r.refuse(digest) }},
		{"pods that preempt", func(r *logRig) { r.preempt(digest) }},
		{"nodes that change", func(r *logRig) { r.node() }},
	}
	for _, tt := range tests {
		r := newLogRig(limit, 200)
		filled := -1
		for range 60_000 {
			tt.step(r)
			if first, _ := r.traces.Range(); filled < 0 && (first > 0 || r.cluster.Oldest() > 300) {
				filled = r.n
			}
			if filled >= 0 && r.n > filled+2000 {
				break
			}
		}
		if filled < 0 {
			t.Fatalf("%s: nothing was ever dropped", tt.name)
		}
		says := r.cluster.LogBytes() + r.traces.size()
		with := liveHeap()
		oldest := r.cluster.Oldest()
		r.cluster.ForgetAll()
		r.traces = newTraces(0)
		takes := with - liveHeap()
		t.Logf("%s: %d fit into %d bytes; position %d on; says %d, takes %d", tt.name, filled, limit, oldest, says, takes)
		if says > limit || says < limit/2 {
			t.Errorf("%s: the log of %d bytes says that it takes %d", tt.name, limit, says)
		}
		if ratio := float64(takes) / float64(says); ratio < 0.8 || ratio > 1.2 {
			t.Errorf("%s: the log says that it takes %d bytes, and the heap that it takes %d", tt.name, says, takes)
		}
		runtime.KeepAlive(r)
	}
}
