package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/engine/enginetest"
	"github.com/berth-dev/berth/host/policy/vet"
	"github.com/berth-dev/berth/host/policy/wire"
	"github.com/berth-dev/berth/host/schedule/policytest"
	"github.com/berth-dev/berth/host/schedule/snapshot"
	"github.com/berth-dev/berth/policies-wasm/bundle"
)

// real is one policy of a built-in module, with and without the meter.
type real struct {
	name           string
	policy         *abi.Policy
	f              engine.Func
	metered, plain *engine.Instance
}

// realPolicies opens every predicate and priority of the built-in modules.
// Without ./task wasm there are none.
func realPolicies(tb testing.TB) []real {
	tb.Helper()
	modules, err := bundle.Modules()
	if err != nil {
		tb.Fatal(err)
	}
	e := openOn(tb, enginetest.Cache())
	var all []real
	for _, b := range modules {
		m, err := e.Load(context.Background(), b.Wasm, vet.Limits{})
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(m.Close)
		bare, err := engine.LoadPlain(context.Background(), e, b.Wasm)
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(bare.Close)
		manifest, err := abi.ReadManifest(m.Manifest())
		if err != nil {
			tb.Fatal(err)
		}
		for i := range manifest.Policies {
			p := &manifest.Policies[i]
			f := engine.FuncFilter
			if p.Kind == "priority" {
				f = engine.FuncScore
			} else if p.Kind != "predicate" {
				continue
			}
			metered, err := m.Open(context.Background(), engine.OpenConfig{})
			if err != nil {
				tb.Fatal(err)
			}
			tb.Cleanup(metered.Close)
			plain, err := bare.Open(context.Background())
			if err != nil {
				tb.Fatal(err)
			}
			tb.Cleanup(plain.Close)
			all = append(all, real{p.Name, p, f, metered, plain})
		}
	}
	return all
}

const ample = engine.Fuel(1 << 40)

// feed opens both instances as the policy and gives them nodes and a pod. It
// returns what the metered one took for each.
func (r *real) feed(tb testing.TB, nodes int) (input []byte, fuel [3]engine.Fuel) {
	tb.Helper()
	opening, err := json.Marshal(abi.OpenConfig{Policy: r.name})
	if err != nil {
		tb.Fatal(err)
	}
	fuel[0] = r.both(tb, engine.FuncOpen, opening).Fuel
	cluster := snapshot.New(0)
	for i, n := range policytest.Nodes(nodes) {
		n.Labels["zone"] = fmt.Sprint("z", i%3)
		cluster.UpsertNode(n)
	}
	encoder := wire.NewEncoder()
	var seq uint64
	give := func(batch []snapshot.Delta) {
		b, s := encoder.Deltas(batch, r.policy.Groups())
		if b == nil {
			return
		}
		fuel[1] += r.both(tb, engine.FuncApply, b).Fuel
		seq = s
	}
	var batch []snapshot.Delta
	cluster.Base(func(d snapshot.Delta) bool {
		d.Seq = cluster.Seq()
		if batch = append(batch, d); len(batch) == wire.MaxBatch {
			give(batch)
			batch = batch[:0]
		}
		return true
	})
	give(batch)
	pod := snapshot.NewPod(policytest.Pod("p", "100m", "200Mi", func(p *v1.Pod) {
		p.Spec.NodeSelector = map[string]string{"zone": "z1"}
		p.Spec.Tolerations = []v1.Toleration{{Key: "a", Operator: v1.TolerationOpExists}}
		p.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 80, ContainerPort: 80}}
	}))
	answer := r.both(tb, engine.FuncPod, encoder.Pod(seq, 1, pod, r.policy.Groups()))
	fuel[2] = answer.Fuel
	if said, err := abi.ReadPodAnswer(answer.Packed); err != nil || said.Ask != abi.AskRows {
		nodes = 0 // a host asks no rows of a policy that has nothing to say
	}
	rows := make([]int32, nodes)
	for i := range rows {
		rows[i] = int32(i)
	}
	return slices.Clone(encoder.Rows(rows)), fuel
}

// both calls both instances, which must answer alike.
func (r *real) both(tb testing.TB, f engine.Func, in []byte) engine.Result {
	tb.Helper()
	got, err := r.metered.Call(f, in, ample)
	if err != nil {
		tb.Fatalf("%s: %+v", r.name, err)
	}
	want, err := r.plain.Call(f, in, ample)
	if err != nil {
		tb.Fatalf("%s without a meter: %+v", r.name, err)
	}
	if got.Status != want.Status || got.Packed != want.Packed || !bytes.Equal(got.Out, want.Out) {
		tb.Fatalf("%s: %s answers %v with a meter, %v without", r.name, f, got, want)
	}
	if got.Status != 0 {
		text, _ := r.metered.Call(engine.FuncError, nil, ample)
		tb.Fatalf("%s: %s: %s", r.name, f, text.Out)
	}
	return got
}

func TestBuiltInPoliciesMeanTheSameWithAMeter(t *testing.T) {
	t.Parallel()
	for _, r := range realPolicies(t) {
		rows, fuel := r.feed(t, 1000)
		if len(rows) == 0 {
			continue
		}
		first := r.both(t, r.f, rows)
		got := r.both(t, r.f, rows)
		t.Logf("%-32s open %d, a row in %d, pod %d, a row out %d units (%d at first); memory %d KiB", r.name, fuel[0], fuel[1]/1000, fuel[2], got.Fuel/1000, first.Fuel/1000, r.metered.MemoryBytes()>>10)
		budget := engine.Budget(1000, len(rows), r.metered.MemoryBytes(), engine.MaxBudget)
		if first.Fuel > budget || 2*got.Fuel > budget {
			t.Errorf("%s takes %d, then %d of a budget of %d for 1,000 rows, want half of it at most", r.name, first.Fuel, got.Fuel, budget)
		}
	}
}

// BenchmarkMeter tells what the meter costs, by policy and over all of them:
// calls over 1,000 rows with it against calls without. Both sides take turns,
// CPU time counts, and the median of the turns' ratios: what slows the machine
// slows both sides of a turn.
func BenchmarkMeter(b *testing.B) {
	var sum, plain float64
	for _, r := range realPolicies(b) {
		rows, _ := r.feed(b, 1000)
		if len(rows) == 0 {
			continue
		}
		var ratio, without float64
		b.Run(r.name, func(b *testing.B) {
			runtime.LockOSThread() // whose time is taken
			defer runtime.UnlockOSThread()
			var ratios, times []float64
			for b.Loop() {
				with, bare := r.turn(b, r.metered, rows), r.turn(b, r.plain, rows)
				ratios, times = append(ratios, with/bare), append(times, bare)
			}
			ratio, without = median(ratios), median(times)
			reportMeter(b, ratio, without)
		})
		sum, plain = sum+ratio*without, plain+without
	}
	b.Run("all", func(b *testing.B) { reportMeter(b, sum/plain, plain) })
}

// turn is the CPU time of a call over those 1,000 rows, in nanoseconds a row.
func (r *real) turn(b *testing.B, i *engine.Instance, rows []byte) float64 {
	const calls = 4
	before := cpu()
	for range calls {
		if _, err := i.Call(r.f, rows, ample); err != nil {
			b.Fatal(err)
		}
	}
	return float64(cpu()-before) / (1000 * calls)
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

func reportMeter(b *testing.B, ratio, plain float64) {
	b.ReportMetric(100*(ratio-1), "meter-%")
	b.ReportMetric(plain, "plain-ns/row")
	b.ReportMetric(0, "ns/op")
}
