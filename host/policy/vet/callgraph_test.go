package vet

import (
	"math/rand/v2"
	"slices"
	"testing"

	. "github.com/berth-dev/berth/host/policy/vet/wasmtest"
)

// reaches finds the same by following each call until nothing new is reached.
func reaches(edges []calls, imports int, taken []uint32) []bool {
	n := len(edges)
	to := make([][]bool, n)
	for i, e := range edges {
		to[i] = make([]bool, n)
		all := slices.Clone(e.direct)
		if e.indirect {
			all = append(all, taken...)
		}
		for _, f := range all {
			if own := int(f) - imports; own >= 0 {
				to[i][own] = true
			}
		}
	}
	for by := range n {
		for from := range n {
			for at := range n {
				to[from][at] = to[from][at] || to[from][by] && to[by][at]
			}
		}
	}
	found := make([]bool, n)
	for i := range n {
		found[i] = to[i][i]
	}
	return found
}

// TestEachCircleOfCallsIsFound holds that a function which comes back to itself
// in whatever way is known to, and no other is: it would have no end.
func TestEachCircleOfCallsIsFound(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 3))
		imports, n := r.IntN(3), 1+r.IntN(7)
		some := func(most int) (all []uint32) {
			for range r.IntN(most + 1) {
				all = append(all, uint32(r.IntN(imports+n)))
			}
			return all
		}
		edges, taken := make([]calls, n), some(3)
		for i := range edges {
			edges[i] = calls{direct: some(2), indirect: r.IntN(4) == 0}
		}
		if got, want := recursive(edges, imports, taken), reaches(edges, imports, taken); !slices.Equal(got, want) {
			t.Fatalf("seed %d: of %+v, tables with %v and %d imports, %v call themselves, want %v", seed, edges, taken, imports, got, want)
		}
	}
}

func TestTheReportCountsWhatMayCallItself(t *testing.T) {
	t.Parallel()
	m := rich()
	m.Func("first", Sig(nil), nil, Call(8))
	m.Func("second", Sig(nil), nil, Call(7))
	m.Func("alone", Sig(nil), nil, Call(7))
	if _, report, err := Rewrite(m.Bytes(), Limits{}); err != nil || report.Recursive != 2 {
		t.Errorf("%d functions call themselves (%v), want 2", report.Recursive, err)
	}
}
