package placed

import (
	"math/rand/v2"
	"testing"

	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/facts"
)

// Pods that come and go, of far more labels than a page holds, are counted by
// what they have in common, and classes without pods are forgotten.
func TestClassesAreFoundAgain(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 8))
	x := New(nil)
	pod := func(kind uint32) *sdk.Pod {
		p := &sdk.Pod{Namespace: facts.Symbol(2 + kind%3)}
		p.Labels.Pairs = []facts.Pair{{Key: 5, Value: facts.Symbol(10 + kind)}, {Key: 6, Value: facts.Symbol(10 + kind/7)}}
		return p
	}
	type on struct {
		slot int32
		kind uint32
	}
	var all []on
	kinds := map[uint32]int{}
	for step := range 20_000 {
		// They come for a while, and then they go.
		if len(all) == 0 || r.IntN(10) < 3+4*(step/4000%2) {
			o := on{int32(r.IntN(50)), uint32(r.IntN(3000))}
			x.Place(o.slot, pod(o.kind), nil)
			all = append(all, o)
			kinds[o.kind]++
			continue
		}
		i := r.IntN(len(all))
		o := all[i]
		all[i] = all[len(all)-1]
		all = all[:len(all)-1]
		x.Remove(o.slot, pod(o.kind), nil)
		if kinds[o.kind]--; kinds[o.kind] == 0 {
			delete(kinds, o.kind)
		}
	}
	for kind, n := range kinds {
		if c := x.class(x.find(pod(kind).Namespace, pod(kind).Labels.Pairs, nil)); c.pods != n || c.free {
			t.Errorf("kind %d has %d pods, want %d", kind, c.pods, n)
		}
	}
	held, used := int64(0), 0
	for _, list := range x.slots {
		for _, h := range list {
			held += h.n
		}
	}
	for id := range x.numClasses {
		if c := x.class(id); c.pods > 0 {
			used++
		}
	}
	if int(held) != len(all) || used != len(kinds) {
		t.Errorf("%d pods of %d classes are held, want %d of %d", held, used, len(all), len(kinds))
	}
	if idle := int(x.numClasses) - len(x.freeIDs) - used; idle > maxIdle+1 {
		t.Errorf("%d classes without pods are kept", idle)
	}
}

func TestTalliesAreFoundByHash(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(9, 10))
	var table tallies
	var all []*Tally
	found := func(t *Tally) bool {
		for other := table.first(t.hash); other != nil; other = other.next {
			if other == t {
				return true
			}
		}
		return false
	}
	for range 5000 {
		if len(all) == 0 || r.IntN(5) < 3 {
			tally := &Tally{hash: r.Uint64N(1000)} // many are alike
			if found(tally) {
				t.Fatal("one is found before it is there")
			}
			table.add(tally, all)
			all = append(all, tally)
			continue
		}
		i := r.IntN(len(all))
		gone := all[i]
		all[i] = all[len(all)-1]
		all = all[:len(all)-1]
		if table.remove(gone); found(gone) {
			t.Fatal("one is found that was removed")
		}
	}
	for _, tally := range all {
		if !found(tally) {
			t.Fatal("one is not found")
		}
	}
}
