package placed

import (
	"math/rand/v2"
	"testing"

	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/facts"
	"github.com/berth-dev/berth/sdk/row"
)

// What is counted for terms is what a look at each pod that is there gives, however
// pods of many labels came and went.
func TestThoseThatMeetTermsAreFoundByTheirLabels(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(11, 12))
	const rows, keys, values = 20, 4, 40
	x := New(row.New(0))
	for slot := range int32(rows) {
		x.RowAdded(slot)
	}
	label := func() facts.Pair {
		return facts.Pair{Key: facts.Symbol(5 + r.IntN(keys)), Value: facts.Symbol(100 + r.IntN(values))}
	}
	pod := func() *sdk.Pod {
		p := &sdk.Pod{Namespace: facts.Symbol(2 + r.IntN(2))}
		for key := range keys {
			if r.IntN(3) > 0 {
				p.Labels.Pairs = append(p.Labels.Pairs, facts.Pair{Key: facts.Symbol(5 + key), Value: facts.Symbol(100 + r.IntN(values))})
			}
		}
		return p
	}
	term := func() facts.PodTerm {
		t := facts.PodTerm{Namespaces: []facts.Symbol{2, 3}[:1+r.IntN(2)], Selector: facts.Selector{Present: true}}
		for range r.IntN(3) {
			l := label()
			op := []facts.Op{facts.In, facts.In, facts.NotIn, facts.Exists}[r.IntN(4)]
			req := facts.Requirement{Key: l.Key, Op: op, Values: []facts.Symbol{l.Value}}
			if op == facts.In && r.IntN(4) == 0 {
				req.Values = append(req.Values, label().Value)
			}
			t.Selector.Reqs = append(t.Selector.Reqs, req)
		}
		return t
	}
	type on struct {
		slot int32
		pod  *sdk.Pod
	}
	var all []on
	var asked [][]facts.PodTerm
	for step := range 5000 {
		switch {
		case len(all) == 0 || r.IntN(10) < 3+4*(step/1000%2):
			o := on{int32(r.IntN(rows)), pod()}
			x.Place(o.slot, o.pod, nil)
			all = append(all, o)
		default:
			i := r.IntN(len(all))
			o := all[i]
			all[i] = all[len(all)-1]
			all = all[:len(all)-1]
			x.Remove(o.slot, o.pod, nil)
		}
		if len(asked) < 100 {
			terms := []facts.PodTerm{term()}
			if r.IntN(3) == 0 {
				terms = append(terms, term())
			}
			asked = append(asked, terms)
		}
		if step%5 != 0 {
			continue
		}
		terms := asked[r.IntN(len(asked))]
		var want [rows]int64
		for _, o := range all {
			if x.Meets(terms, o.pod.Namespace, o.pod.Labels.Pairs) {
				want[o.slot]++
			}
		}
		tally := x.Matching(facts.NoSymbol, terms)
		for slot := range int32(rows) {
			if got := tally.At(slot); got != want[slot] {
				t.Fatalf("step %d: %d pods of row %d meet %v, want %d", step, got, slot, terms, want[slot])
			}
		}
	}
}

// A tally stands until the next change, however many are asked for after it, though
// those of before lend their counts to others.
func TestTalliesStandUntilTheNextChange(t *testing.T) {
	t.Parallel()
	x := New(row.New(0))
	for slot := range int32(3) {
		x.RowAdded(slot)
	}
	const apps = 3 * maxAsked
	app := func(i int) facts.Pair { return facts.Pair{Key: 5, Value: facts.Symbol(100 + i)} }
	for round := range 3 {
		for i := range apps {
			p := &sdk.Pod{Namespace: 2}
			p.Labels.Pairs = []facts.Pair{app(i)}
			x.Place(int32(i%3), p, nil)
		}
		var tallies []*Tally
		for i := range apps {
			tallies = append(tallies, x.Matching(facts.NoSymbol, []facts.PodTerm{{
				Namespaces: []facts.Symbol{2},
				Selector:   facts.Selector{Present: true, Reqs: []facts.Requirement{{Key: 5, Op: facts.In, Values: []facts.Symbol{app(i).Value}}}},
			}}))
		}
		for i, tally := range tallies {
			for slot := range int32(3) {
				want := int64(0)
				if i%3 == int(slot) {
					want = int64(round + 1)
				}
				if got := tally.At(slot); got != want {
					t.Fatalf("round %d: app %d has %d pods on row %d, want %d", round, i, got, slot, want)
				}
			}
		}
	}
}
