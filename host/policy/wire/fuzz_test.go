package wire_test

import (
	"testing"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/wire"
	"github.com/berth-dev/berth/host/schedule/snapshot"
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/guest"
	"github.com/berth-dev/berth/sdk/row"
)

func init() {
	guest.Register(guest.Policy{
		Name: "Copier", Kind: guest.KindPredicate, Scope: guest.ScopeRow, Reads: abi.NodeGroups,
		Open: func(s *guest.Setup) (any, error) { return &copier{rows: s.Rows}, nil },
	})
}

// copier keeps the rows that it is told.
type copier struct{ rows *row.Table }

func (c *copier) PreFilter(*sdk.Pod) guest.Answer { return guest.AskRows }

func (c *copier) FilterRows(slots []int32, verdicts []guest.ReasonID) { clear(verdicts) }

// FuzzRow holds that a row arrives as it was sent: whole, then changed in one
// group, then gone.
func FuzzRow(f *testing.F) {
	f.Add("node-1", "zone", "a", "nvidia.com/gpu", int64(4000), int64(100), int64(2), uint16(0))
	f.Add("", "", "", "", int64(-1), int64(1<<62), int64(0), uint16(700))
	f.Fuzz(func(t *testing.T, name, key, value, scalar string, cpu, used, gpus int64, slot uint16) {
		for _, text := range []string{name, key, value, scalar} {
			if !utf8.ValidString(text) {
				return // the API lets no such text in
			}
		}
		at := int32(slot)
		in, err := guest.Open([]byte(`{"policy":"Copier"}`))
		if err != nil {
			t.Fatal(err)
		}
		r := &snapshot.Row{
			Slot:        at,
			Node:        &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{key: value}}},
			Allocatable: snapshot.Resources{MilliCPU: cpu, Pods: 110, Scalars: []snapshot.Scalar{{Name: scalar, Value: gpus}}},
		}
		e := wire.NewEncoder()
		give := func(d snapshot.Delta) {
			b, _ := e.Deltas([]snapshot.Delta{d}, abi.NodeGroups)
			if err := in.Apply(b); err != nil {
				t.Fatalf("Apply = %v", err)
			}
		}
		give(upsert(1, r, abi.NodeGroups))
		rows := in.Rows()
		if got := rows.Symbols.String(rows.Name[at]); got != name {
			t.Errorf("the name is %q, want %q", got, name)
		}
		if got, ok := rows.Labels(at).Get(key); !ok || got != value {
			t.Errorf("label %q is %q, want %q", key, got, value)
		}
		if got := rows.Allocatable.At(at).MilliCPU; got != cpu {
			t.Errorf("allocatable CPU is %d, want %d", got, cpu)
		}
		if s := rows.AllocatableScalars[at]; len(s) != 1 || rows.Symbols.String(s[0].Name) != scalar || s[0].Value != gpus {
			t.Errorf("the scalars are %v, want %d of %q", s, gpus, scalar)
		}
		r.Requested = snapshot.Resources{MilliCPU: used}
		give(upsert(2, r, abi.NodeUsage))
		if got := rows.Requested.At(at).MilliCPU; got != used {
			t.Errorf("requested CPU is %d, want %d", got, used)
		}
		give(snapshot.Delta{Seq: 3, Kind: snapshot.RowRemove, Slot: at})
		if left := rows.Allocatable.At(at).MilliCPU; left != 0 {
			t.Errorf("a row that is gone holds %d of CPU", left)
		}
	})
}
