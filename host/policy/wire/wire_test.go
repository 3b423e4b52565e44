package wire_test

import (
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/wire"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/snapshot"
	_ "github.com/berth-dev/berth/policies-wasm/predicates/podfitsresources"
	_ "github.com/berth-dev/berth/policies-wasm/priorities/leastrequested"
	"github.com/berth-dev/berth/sdk/guest"
)

const gib = 1 << 30

func node(slot int32, name string, cpu, used int64) *snapshot.Row {
	return &snapshot.Row{
		Slot: slot,
		Node: &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": "a", "empty": ""}}},
		Allocatable: snapshot.Resources{
			MilliCPU: cpu, Memory: 8 * gib, Pods: 110,
			Scalars: []snapshot.Scalar{{Name: "nvidia.com/gpu", Value: 2}},
		},
		Requested: snapshot.Resources{MilliCPU: used, Memory: gib, Pods: 1},
		NonZero:   snapshot.Resources{MilliCPU: used, Memory: gib},
	}
}

func pod(cpu int64, gpus int64) *snapshot.Pod {
	p := &snapshot.Pod{
		Object:   &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u1"}},
		Requests: snapshot.Resources{MilliCPU: cpu, Memory: gib},
		NonZero:  snapshot.Resources{MilliCPU: cpu, Memory: gib},
		Weighed:  snapshot.Resources{MilliCPU: cpu, Memory: gib},
	}
	if gpus > 0 {
		p.Requests.Scalars = []snapshot.Scalar{{Name: "nvidia.com/gpu", Value: gpus}}
	}
	return p
}

func upsert(seq uint64, r *snapshot.Row, groups abi.Groups) snapshot.Delta {
	return snapshot.Delta{Seq: seq, Kind: snapshot.RowUpsert, Slot: r.Slot, Groups: groups, Row: r}
}

// native is an instance that is opened natively, with what it reads.
type native struct {
	t     *testing.T
	in    *guest.Instance
	e     *wire.Encoder
	reads abi.Groups
	seq   uint64
}

func open(t *testing.T, name string) *native {
	t.Helper()
	for _, p := range guest.Registered() {
		if p.Name == name {
			in, err := guest.Open([]byte(`{"policy":"` + name + `"}`))
			if err != nil {
				t.Fatalf("Open(%s) = %v", name, err)
			}
			return &native{t: t, in: in, e: wire.NewEncoder(), reads: p.Reads}
		}
	}
	t.Fatalf("no policy %s", name)
	return nil
}

func (g *native) apply(deltas ...snapshot.Delta) {
	g.t.Helper()
	b, seq := g.e.Deltas(deltas, g.reads)
	if b == nil {
		return
	}
	if err := g.in.Apply(b); err != nil {
		g.t.Fatalf("Apply = %v", err)
	}
	g.seq = seq
}

func (g *native) pod(p *snapshot.Pod) {
	g.t.Helper()
	if _, err := g.in.Pod(g.e.Pod(g.seq, 0, p, g.reads)); err != nil {
		g.t.Fatalf("Pod = %v", err)
	}
}

func (g *native) filter(rows ...int32) []string {
	g.t.Helper()
	out, err := g.in.Filter(g.e.Rows(rows))
	if err != nil {
		g.t.Fatalf("Filter = %v", err)
	}
	return g.texts(out)
}

func (g *native) texts(out []byte) []string {
	texts := make([]string, len(out))
	for i, id := range out {
		v := g.in.Reason(id)
		texts[i] = v.Reason()
		if v.Final() {
			texts[i] += " (final)"
		}
	}
	return texts
}

func (g *native) score(rows ...int32) []int64 {
	g.t.Helper()
	out, err := g.in.Score(g.e.Rows(rows))
	if err != nil {
		g.t.Fatalf("Score = %v", err)
	}
	scores := make([]int64, len(out)/8)
	for i := range scores {
		scores[i] = int64(binary.LittleEndian.Uint64(out[8*i:]))
	}
	return scores
}

func TestRowsReachAGuestAndFollowTheirChanges(t *testing.T) {
	t.Parallel()
	g := open(t, "PodFitsResources")
	small, large := node(0, "small", 1000, 500), node(2, "large", 8000, 500)
	g.apply(upsert(1, small, abi.NodeGroups), upsert(2, large, abi.NodeGroups))
	g.pod(pod(900, 0))
	if diff := cmp.Diff([]string{"Insufficient cpu", ""}, g.filter(0, 2)); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"Insufficient cpu", "", ""}, g.filter()); diff != "" {
		t.Errorf("verdicts of all slots (-want +got):\n%s", diff)
	}
	g.apply(upsert(3, node(0, "small", 1000, 0), abi.NodeUsage))
	g.pod(pod(900, 0))
	if diff := cmp.Diff([]string{""}, g.filter(0)); diff != "" {
		t.Errorf("verdict after the usage fell (-want +got):\n%s", diff)
	}
	g.pod(pod(1001, 3))
	if diff := cmp.Diff([]string{"Insufficient cpu, Insufficient nvidia.com/gpu (final)", "Insufficient nvidia.com/gpu (final)"}, g.filter(0, 2)); diff != "" {
		t.Errorf("verdicts for a pod that is too large (-want +got):\n%s", diff)
	}
	g.apply(snapshot.Delta{Seq: 4, Kind: snapshot.RowRemove, Slot: 0})
	g.pod(pod(1, 0))
	if _, err := g.in.Filter(g.e.Rows([]int32{0})); err == nil {
		t.Error("Filter answered for a row that was removed")
	}
}

func TestScoresComeBackByRow(t *testing.T) {
	t.Parallel()
	g := open(t, "LeastRequestedPriority")
	g.apply(upsert(1, node(0, "a", 1000, 500), abi.NodeGroups), upsert(2, node(1, "b", 10000, 0), abi.NodeGroups))
	g.pod(pod(500, 0))
	// a: cpu 0, memory 75; b: cpu 95, memory 75.
	if diff := cmp.Diff([]int64{85, 37}, g.score(1, 0)); diff != "" {
		t.Errorf("scores (-want +got):\n%s", diff)
	}
}

func TestAQuestionLeavesNoTrace(t *testing.T) {
	t.Parallel()
	g := open(t, "PodFitsResources")
	full := node(0, "a", 1000, 1000)
	g.apply(upsert(1, full, abi.NodeGroups))
	g.pod(pod(900, 0))
	freed := node(0, "a", 1000, 0)
	questions := []framework.WhatIf{
		{Deltas: []snapshot.Delta{upsert(0, freed, abi.NodeUsage)}, Row: 0},
		{Row: 0},
		{Deltas: []snapshot.Delta{upsert(0, freed, abi.NodeGroups)}, Row: 0},
	}
	out, err := g.in.WhatIf(g.e.WhatIf(questions, g.reads))
	if err != nil {
		t.Fatalf("WhatIf = %v", err)
	}
	if diff := cmp.Diff([]string{"", "Insufficient cpu", ""}, g.texts(out)); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"Insufficient cpu"}, g.filter(0)); diff != "" {
		t.Errorf("verdict after the questions (-want +got):\n%s", diff)
	}
}

func TestAUsageChangeIsAppliedWithoutAllocating(t *testing.T) {
	g := open(t, "PodFitsResources")
	r := node(0, "a", 1000, 500)
	g.apply(upsert(1, r, abi.NodeGroups))
	p, seq := pod(100, 1), uint64(1)
	deltas := make([]snapshot.Delta, 1)
	rows := []int32{0}
	allocs := testing.AllocsPerRun(100, func() {
		seq++
		deltas[0] = upsert(seq, r, abi.NodeUsage)
		g.apply(deltas...)
		g.pod(p)
		if _, err := g.in.Filter(g.e.Rows(rows)); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 0 {
		t.Errorf("a bind's delta, the next pod and its row allocate %v times, want 0", allocs)
	}
}

func BenchmarkUsagePodFilter(b *testing.B) {
	in, err := guest.Open([]byte(`{"policy":"PodFitsResources"}`))
	if err != nil {
		b.Fatal(err)
	}
	reads := abi.PodRequests | abi.NodeCapacity | abi.NodeUsage
	e, r, p := wire.NewEncoder(), node(0, "a", 1000, 500), pod(100, 1)
	deltas := []snapshot.Delta{upsert(1, r, abi.NodeGroups)}
	rows := []int32{0}
	for i := 0; b.Loop(); i++ {
		deltas[0].Seq = uint64(i + 1)
		batch, seq := e.Deltas(deltas, reads)
		if err := in.Apply(batch); err != nil {
			b.Fatal(err)
		}
		deltas[0].Groups = abi.NodeUsage
		if _, err := in.Pod(e.Pod(seq, 0, p, reads)); err != nil {
			b.Fatal(err)
		}
		if _, err := in.Filter(e.Rows(rows)); err != nil {
			b.Fatal(err)
		}
	}
}
