package main

import (
	"testing"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/sdk/policytest"
)

// The specification suffices for a guest without a compiler, too.
func TestThePolicyInWATAnswersItsTable(t *testing.T) {
	t.Parallel()
	i := openGuest(t.Context(), t, buildForeign(t, "wat-predicate"))
	const refused = "node keeps a tenth of its memory free"
	memory := func(amount string) map[string]string { return map[string]string{"memory": amount} }
	policytest.RunGuest(t, policytest.Table{
		Policy: "Headroom",
		Nodes: []policytest.Node{
			{Name: "empty", Allocatable: memory("10Gi")},
			{Name: "half", Allocatable: memory("10Gi"), Requested: memory("5Gi")},
			{Name: "full", Allocatable: memory("10Gi"), Requested: memory("10Gi")},
			{Name: "none"},
		},
		Cases: []policytest.Case{
			{Name: "a pod that requests no memory", Want: map[string]string{"empty": "", "half": "", "full": "", "none": ""}},
			{
				Name: "one that comes up to nine tenths", Pod: policytest.Pod{Requests: memory("4Gi")},
				Want: map[string]string{"empty": "", "half": "", "full": refused, "none": refused},
			},
			{
				Name: "one that goes beyond them by a byte", Pod: policytest.Pod{Requests: memory("4294967297")},
				Want: map[string]string{"empty": "", "half": refused, "full": refused, "none": refused},
			},
			{Name: "one for which even an empty node is too small", Pod: policytest.Pod{Requests: memory("9728Mi")}, Want: map[string]string{"empty": refused}},
		},
	}, func(export string, in []byte) ([]byte, uint64, error) { return callGuest(i, export, in) })
}

func TestThePolicyInWATRefusesWhatItCannotDo(t *testing.T) {
	t.Parallel()
	wasm := buildForeign(t, "wat-predicate")
	manifest, err := abi.ReadManifest(openedManifest(t, wasm))
	if err != nil || manifest.Find("Headroom") == nil {
		t.Errorf("manifest = %+v, %v", manifest, err)
	}
	i := openGuest(t.Context(), t, wasm)
	r, err := i.Call(engine.FuncFilter, rowNumbers(7, 8), engine.MaxBudget)
	if err == nil && len(r.Out) > 0 {
		t.Errorf("it judges a row that it does not know: %v", r.Out)
	}
	if said, want := complaint(i), "a row that this guest was not told of"; said != want {
		t.Errorf("it says %q, want %q", said, want)
	}
}
