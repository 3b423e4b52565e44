package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/berth-dev/berth/abi"
	. "github.com/berth-dev/berth/host/policy/vet/wasmtest"
	clustertest "github.com/berth-dev/berth/host/schedule/policytest"
)

// laborious is a policy of scope row that takes about so much fuel for each row,
// and admits all.
func laborious(kind string, fuel int64) guest {
	const out = 1 << 20
	export, shift := "berth_filter", int32(0)
	if kind == "priority" {
		export, shift = "berth_score", 3
	}
	work := Seq(I64Const(fuel/9), Set(2), Block(Void, Loop(Void,
		Get(2), Op(0x50), BrIf(1), Get(2), I64Const(1), Op(0x7d), Set(2), Br(0))))
	return guest{Name: "laborious", Version: "1", Kind: kind, Refuse: -1, Also: func(m *Module) {
		m.Drop(export).Export(export, Sig([]byte{I32}, I64), []byte{I32, I64},
			Block(Void, Loop(Void,
				Get(1), Get(0), I32Const(2), Op(0x76), Op(0x4f), BrIf(1),
				work, Get(1), I32Const(1), Op(0x6a), Set(1), Br(0))),
			I64Const(out<<32), Get(0), I32Const(2), Op(0x76), I32Const(shift), Op(0x74), Op(0xad), Op(0x84))
		m.Export("berth_idle", Sig(nil, I32), nil, I32Const(0))
	}}
}

// late is a policy that takes about so much fuel for the first pod that it is told
// of, as one whose memory is full then: it makes its columns, collects and grows.
func late(fuel int64) guest {
	const told = 1<<20 - 8
	return guest{Name: "late", Version: "1", Kind: "predicate", Refuse: -1, Also: func(m *Module) {
		m.Drop("berth_pod").Export("berth_pod", Sig([]byte{I32}, I64), []byte{I64},
			I32Const(told), Load32(0), Op(0x45), If(Void,
				I32Const(told), I32Const(1), Store32(0),
				I64Const(fuel/9), Set(1), Block(Void, Loop(Void,
					Get(1), Op(0x50), BrIf(1), Get(1), I64Const(1), Op(0x7d), Set(1), Br(0)))),
			I64Const(int64(abi.AskRows)))
	}}
}

// What an instance that was told a cluster just now has to make up for is no failure:
// the next one would have to, too.
func TestTheFirstPodMayCostACollection(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.put(t, "late", withModule(r.upload(t, late(12_000_000).Bytes())))
	r.join(t, "late", "predicate")
	r.withNodes(500)
	if refused := r.placed(t, 0, 20); refused > 0 {
		t.Errorf("%d of 20 pods are refused", refused)
	}
	if f := r.figures(t, "late"); f.Failures > 0 {
		t.Errorf("%d failures, the last: %s", f.Failures, f.LastFailure)
	}
}

// What a row takes is the author's doing, how many there are is the user's.
func TestAPolicysFuelIsByRowAndNotByCluster(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, kind string
		fuel       int64
		nodes      int
		fails      bool
	}{
		{"a predicate in the natural style", "predicate", 6_600, 3000, false},
		{"one by stock Go", "predicate", 11_500, 3000, false},
		{"one that makes a map for each row", "predicate", 37_000, 3000, false},
		{"a priority", "priority", 11_500, 3000, false},
		{"one whose rows take more than the whole question may", "predicate", 400_000, 2000, true},
		{"one that burns a call for each row", "predicate", 1 << 40, 50, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.put(t, "laborious", withModule(r.upload(t, laborious(tt.kind, tt.fuel).Bytes())))
			r.join(t, "laborious", tt.kind)
			r.withNodes(tt.nodes)
			got := r.decide(t, clustertest.Pod("p", "10m", "1Mi", nil))
			f := r.figures(t, "laborious")
			if failed := f.Failures > 0; failed != tt.fails {
				t.Errorf("%d failures, the last: %s", f.Failures, f.LastFailure)
			}
			if tt.fails && !strings.Contains(f.LastFailure, "spec.limits.callMilliseconds") {
				t.Errorf("it does not name the field that raises the limit: %s", f.LastFailure)
			}
			if refused := strings.Contains(got, "Slot:-1"); refused != tt.fails {
				t.Errorf("it decides %.300s", got)
			}
			if most := int64(tt.nodes)*40_000 + 4*8_000_000; f.Fuel > most {
				t.Errorf("its calls took %d of fuel, want %d at most", f.Fuel, most)
			}
		})
	}
}

// Policies that each stay within what is theirs do not hold up a profile together:
// the heaviest goes first, and who remains is asked on.
func TestAProfileShedsItsHeaviestPolicies(t *testing.T) {
	t.Parallel()
	const nodes, heavy = 2000, 5
	r := newRig(t)
	for k := range heavy {
		name := fmt.Sprint("laborious", k)
		g := laborious("predicate", int64(25_000+1000*k))
		g.Name = name
		r.put(t, name, withModule(r.upload(t, g.Bytes())))
		r.join(t, name, "predicate")
	}
	r.withNodes(nodes)
	for i := range 40 {
		r.decide(t, clustertest.Pod(fmt.Sprint("p", i), fmt.Sprintf("%dm", 10+i), "1Mi", nil))
	}
	for k := range heavy {
		f := r.figures(t, fmt.Sprint("laborious", k))
		if shed := f.Failures > 0; shed != (k >= 3) {
			t.Errorf("%s has failed %d times: %s", f.Name, f.Failures, f.LastFailure)
		}
	}
}
