package snapshot_test

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// told is a whole state as a guest would be told it.
func told(l snapshot.Log) []snapshot.Delta {
	var all []snapshot.Delta
	l.Base(func(d snapshot.Delta) bool { all = append(all, d); return true })
	return all
}

func sameDeltas(a, b []snapshot.Delta) bool {
	return cmp.Equal(a, b, cmp.Comparer(func(x, y snapshot.Delta) bool { return x == y }))
}

func TestATapePlaysTheLogAgain(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	c := snapshot.New(64)
	views := map[uint64][]snapshot.Delta{}
	for step := range 1000 {
		change(r, c, step)
		views[c.Seq()] = told(c)
	}
	tape := c.Tape(0)
	first := tape.Seq()
	if first == 0 || first > c.Seq()-30 {
		t.Fatalf("the tape begins at %d of %d, want what the log holds", first, c.Seq())
	}
	for at := first; at <= c.Seq(); at += uint64(r.IntN(5)) {
		if !tape.Forward(at) || tape.Seq() != at {
			t.Fatalf("forward to %d came to %d", at, tape.Seq())
		}
		if want, whole := views[at]; whole && !sameDeltas(told(tape), want) {
			t.Fatalf("the tape at %d is not what the cluster was", at)
		}
		since := first + r.Uint64N(at-first+1)
		got, ok := tape.Since(since)
		want, _ := c.Since(since)
		for len(want) > 0 && want[len(want)-1].Seq > at {
			want = want[:len(want)-1]
		}
		if !ok || !sameDeltas(got, want) {
			t.Fatalf("since %d at %d: %d deltas, %v, want %d", since, at, len(got), ok, len(want))
		}
	}
	if tape.Forward(first) || tape.Forward(c.Seq()+1) {
		t.Error("the tape went back, or beyond its end")
	}
	if _, ok := tape.Since(first - 1); ok {
		t.Error("the tape tells what came before it")
	}
}
