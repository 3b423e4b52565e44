package cycle

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/policytest"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// selecting is a predicate by a pod's node selector, which says that it depends on
// just the labels and values that stand there. A value that begins with ">" admits
// all that are higher.
func selecting(reasons *framework.Reasons) *policytest.Native {
	n := policytest.Selector(reasons)
	n.Is.Reads |= abi.NodeName
	n.On = func(pod *snapshot.Pod) *abi.Depends {
		d := &abi.Depends{}
		for _, key := range slices.Sorted(maps.Keys(pod.Object.Spec.NodeSelector)) {
			d.Labels = append(d.Labels, abi.LabelDepends{Key: key, Values: []string{pod.Object.Spec.NodeSelector[key]}})
		}
		return d
	}
	return n
}

// looking is a predicate that looks at a label, and at others where it has a certain
// value, as an author's code does: what it has looked at so far is what it depends on.
func looking(reasons *framework.Reasons) *policytest.Native {
	seen := map[string]bool{}
	look := func(row *snapshot.Row, key string) string {
		seen[key] = true
		return row.Node.Labels[key]
	}
	return &policytest.Native{
		Is: policytest.Named("Looking", abi.PodLabels|abi.NodeLabels|abi.NodeName|abi.NodeUsage, abi.ScopeRow), Reasons: reasons,
		Judge: func(_ snapshot.Log, _ *snapshot.Pod, row *snapshot.Row) string {
			if look(row, "zone") == "1" && look(row, "disk") == "hdd" && look(row, v1.LabelHostname) > "n2" {
				return "a slow node of zone 1"
			}
			return ""
		},
		On: func(*snapshot.Pod) *abi.Depends {
			d := &abi.Depends{}
			for _, key := range slices.Sorted(maps.Keys(seen)) {
				d.Labels = append(d.Labels, abi.LabelDepends{Key: key, Any: true})
			}
			return d
		},
	}
}

func depending(reasons *framework.Reasons) *framework.Profile {
	p := policytest.Default(reasons)
	p.Predicates[1] = framework.ProfilePredicate{Policy: selecting(reasons), Verifier: selecting(reasons)}
	p.Predicates = append(p.Predicates, framework.ProfilePredicate{Policy: looking(reasons), Verifier: looking(reasons)})
	return p
}

// What a policy depends on may be told by labels and values, or come out while it is
// asked, and both change with the nodes: the decisions are those of the whole table.
func TestDecidesByWhatAnswersDependOn(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			r := rand.New(rand.NewPCG(seed, 2))
			reasons := framework.NewReasons(0)
			d := New(Options{Reasons: reasons, MemoryBytes: []int64{2000, 1 << 24}[seed%2], OnDivergence: func(diff Divergence) { t.Errorf("impure: %+v", diff) }})
			d.partitions.labels.few = int(seed % 3)
			set, judge := policytest.Set(1, depending(reasons)), depending(reasons)
			c := snapshot.New((16 + r.IntN(200)) << 11)
			world := newWorld(r, c)
			for step := range 400 {
				world.change()
				object := world.pod()
				if r.IntN(2) == 0 {
					object.Spec.NodeSelector = map[string]string{v1.LabelHostname: fmt.Sprint("n", 1+r.IntN(2*len(world.nodes)))}
				}
				pod := snapshot.NewPod(object)
				got := d.Decide(ctx, Input{Set: set, Profile: set.Profiles["default-scheduler"], Log: c, Pod: pod, Seed: r.Uint64()})
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
		})
	}
}

// Each node has a name of its own, but who depends on others of its labels is asked
// about one of the nodes that are equal in these.
func TestNodesThatDifferInWhatDoesNotMatterAreAskedAboutOnce(t *testing.T) {
	t.Parallel()
	b := newBench(500, Options{}, depending)
	predicates := b.set.Profiles["default-scheduler"].Predicates
	selector, looking := predicates[1].Policy.(*policytest.Native), predicates[len(predicates)-1].Policy.(*policytest.Native)
	pod := func(i int, host string) *snapshot.Pod {
		return snapshot.NewPod(policytest.Pod(fmt.Sprint("p", i), fmt.Sprint(100+i, "m"), "", func(p *v1.Pod) {
			p.Labels = map[string]string{"app": fmt.Sprint(i)}
			p.Spec.NodeSelector = map[string]string{v1.LabelHostname: host}
		}))
	}
	for i := range 3 { // the third time it is known that labels matter
		b.decide(pod(i, fmt.Sprint("gone-", i)), 1)
	}
	asked := selector.Rows + looking.Rows
	for k := range 3 * 20 { // each comes again, and is remembered
		i := k % 20
		if got := b.decide(pod(3+i, fmt.Sprint("lost-", i)), 1); got.Feasible != 0 {
			t.Fatalf("pod %d: %d nodes are feasible, want none of a name that no node has", i, got.Feasible)
		}
	}
	if asked := selector.Rows + looking.Rows - asked; asked > 2*20 {
		t.Errorf("20 pods asked the policies about %d of 500 nodes each, want one each", asked)
	}
	b.c.UpsertNode(policytest.Node("lost-3", "4", "32Gi", 110, nil))
	if got := b.decide(pod(6, "lost-3"), 1); got.Feasible != 1 {
		t.Errorf("%d nodes are feasible once the node is there, want 1", got.Feasible)
	}
}

// A policy that finds ever more to depend on is asked about each row in the end.
func TestAPolicyThatDependsOnEverMoreIsAskedAboutEachRow(t *testing.T) {
	t.Parallel()
	more := 0
	b := newBench(50, Options{}, func(reasons *framework.Reasons) *framework.Profile {
		n := policytest.Taints(reasons)
		n.Is.Reads |= abi.NodeLabels
		n.On = func(*snapshot.Pod) *abi.Depends {
			more++
			return &abi.Depends{Labels: []abi.LabelDepends{{Key: fmt.Sprint("l", more), Any: true}}}
		}
		return &framework.Profile{Name: "default-scheduler", Predicates: []framework.ProfilePredicate{{Policy: n}}}
	})
	for range 3 {
		if got := b.decide(b.pod("1"), 1); got.Feasible != 50 {
			t.Errorf("%d of 50 nodes are feasible", got.Feasible)
		}
	}
	if more > 3*(maxFiner+2) {
		t.Errorf("it was asked %d times what it depends on", more)
	}
}
