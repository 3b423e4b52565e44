package cycle

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/policytest"
	"github.com/berth-dev/berth/host/schedule/snapshot"

	v1 "k8s.io/api/core/v1"
)

// TestDecidesAsThePoliciesSay compares the incremental engine, with more or
// less memory, with the plain table of all answers, over random histories.
func TestDecidesAsThePoliciesSay(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		memory := int64(1 << 24)
		if seed%2 == 1 {
			memory = 2000
		}
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			agree(t, seed, memory)
		})
	}
}

func agree(t *testing.T, seed uint64, memory int64) {
	ctx := context.Background()
	r := rand.New(rand.NewPCG(seed, 1))
	reasons := framework.NewReasons(0)
	d := New(Options{Reasons: reasons, MemoryBytes: memory, OnDivergence: func(diff Divergence) { t.Errorf("impure: %+v", diff) }})
	set := policytest.Set(1, policytest.Default(reasons))
	judge := policytest.Default(reasons)
	c := snapshot.New((16 + r.IntN(200)) << 11)
	world := newWorld(r, c)
	for step := range 400 {
		world.change()
		if r.IntN(50) == 0 {
			set = policytest.Set(int64(step), policytest.Default(reasons))
		}
		pod := snapshot.NewPod(world.pod())
		in := Input{Set: set, Profile: set.Profiles["default-scheduler"], Log: c, Pod: pod, Seed: r.Uint64()}
		in.Nominated = c.Nominated(pod)
		got := d.Decide(ctx, in)
		table, err := Judge(ctx, judge, reasons, c, pod, 0)
		if err != nil {
			t.Fatal(err)
		}
		compare(t, step, c, got, table)
		d.End()
		if got.Slot >= 0 && r.IntN(4) > 0 {
			c.Place(pod, c.Row(got.Slot).Node.Name)
			world.placed = append(world.placed, pod)
		}
	}
}

func compare(t *testing.T, step int, c *snapshot.Cluster, got Decision, table *Table) {
	t.Helper()
	best, total := table.Best()
	feasible := 0
	for _, yes := range table.Feasible {
		if yes {
			feasible++
		}
	}
	if got.Feasible != feasible || got.Nodes != len(table.Rows) || got.Tied != len(best) {
		t.Fatalf("step %d: %d of %d nodes feasible, %d tied, want %d of %d, %d tied", step, got.Feasible, got.Nodes, got.Tied, feasible, len(table.Rows), len(best))
	}
	if len(best) == 0 {
		if got.Slot != -1 {
			t.Fatalf("step %d: picked %d, want none", step, got.Slot)
		}
		count := 0
		for _, refusal := range got.Refusals {
			count += refusal.Count
		}
		if count != len(table.Rows) {
			t.Fatalf("step %d: %d refusals counted, want %d", step, count, len(table.Rows))
		}
		return
	}
	if !slices.Contains(best, got.Slot) || got.Total != total {
		t.Fatalf("step %d: picked %d with %d, want one of %v with %d", step, got.Slot, got.Total, best, total)
	}
}

// world makes random changes.
type world struct {
	r      *rand.Rand
	c      *snapshot.Cluster
	nodes  []string
	placed []*snapshot.Pod
	n      int
}

func newWorld(r *rand.Rand, c *snapshot.Cluster) *world {
	w := &world{r: r, c: c}
	for range 5 + r.IntN(30) {
		w.addNode()
	}
	return w
}

func (w *world) addNode() {
	w.n++
	name := fmt.Sprintf("n%d", w.n)
	w.nodes = append(w.nodes, name)
	w.c.UpsertNode(w.node(name))
}

func (w *world) node(name string) *v1.Node {
	return policytest.Node(name, fmt.Sprint(1+w.r.IntN(4)), "8Gi", int64(1+w.r.IntN(6)), func(n *v1.Node) {
		n.Labels["disk"] = []string{"ssd", "hdd"}[w.r.IntN(2)]
		n.Labels["zone"] = fmt.Sprint(w.r.IntN(3))
		for range w.r.IntN(3) {
			effect := []v1.TaintEffect{v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectPreferNoSchedule}[w.r.IntN(3)]
			n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: fmt.Sprint("t", w.r.IntN(2)), Effect: effect})
		}
	})
}

func (w *world) change() {
	switch w.r.IntN(12) {
	case 0:
		w.addNode()
	case 1:
		if len(w.nodes) > 1 {
			i := w.r.IntN(len(w.nodes))
			w.c.RemoveNode(w.nodes[i])
			w.nodes = slices.Delete(w.nodes, i, i+1)
		}
	case 2, 3:
		w.c.UpsertNode(w.node(w.nodes[w.r.IntN(len(w.nodes))]))
	case 4, 5, 6:
		if len(w.placed) > 0 {
			i := w.r.IntN(len(w.placed))
			w.c.Remove(w.placed[i].UID())
			w.placed = slices.Delete(w.placed, i, i+1)
		}
	}
}

func (w *world) pod() *v1.Pod {
	w.n++
	return policytest.Pod(fmt.Sprint("p", w.n), fmt.Sprintf("%dm", 100+400*w.r.IntN(3)), "256Mi", func(p *v1.Pod) {
		p.Labels = map[string]string{}
		if w.r.IntN(3) == 0 {
			p.Labels["disk"] = "ssd"
		}
		if w.r.IntN(4) == 0 {
			p.Labels["apart"] = fmt.Sprint(w.r.IntN(2))
		}
		if w.r.IntN(4) == 0 {
			p.Labels["crowd"] = "yes"
		}
		if w.r.IntN(4) == 0 {
			p.Spec.NodeSelector = map[string]string{"zone": fmt.Sprint(w.r.IntN(4))}
		}
		if w.r.IntN(4) == 0 {
			p.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: int32(80 + w.r.IntN(2))}}
		}
		if w.r.IntN(3) == 0 {
			p.Spec.Tolerations = []v1.Toleration{{Key: "t0", Operator: v1.TolerationOpExists}}
		}
	})
}
