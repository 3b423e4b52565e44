package snapshot_test

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/berth-dev/berth/host/schedule/policytest"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

func TestATapePlaysTheLogAgain(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	c := snapshot.New(256 << 10)
	views, deltas := map[uint64][]string{}, []snapshot.Delta{}
	for step := range 4000 {
		now := c.Seq()
		policytest.Walk(r, c, step)
		views[c.Seq()] = policytest.Summary(c)
		news, _ := c.Since(now)
		deltas = append(deltas, news.Whole()...)
	}
	tape := c.Tape(0)
	first := tape.Seq()
	if first == 0 || first > c.Seq()-100 {
		t.Fatalf("the tape begins at %d of %d, want what the log holds", first, c.Seq())
	}
	for at := first; at <= c.Seq(); at += uint64(r.IntN(20)) {
		if !tape.Forward(at) || tape.Seq() != at {
			t.Fatalf("forward to %d came to %d", at, tape.Seq())
		}
		if want, whole := views[at]; whole {
			if diff := cmp.Diff(want, policytest.Summary(tape), cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("the tape at %d is not what the cluster was (-want +got):\n%s", at, diff)
			}
		}
		since := first + r.Uint64N(at-first+1)
		got, ok := tape.Since(since)
		var want []snapshot.Delta
		for _, d := range deltas {
			if d.Seq > since && d.Seq <= at {
				want = append(want, d)
			}
		}
		if diff := cmp.Diff(policytest.ToldAll(want), policytest.ToldAll(got.Whole())); !ok || diff != "" {
			t.Fatalf("since %d at %d: %v (-want +got):\n%s", since, at, ok, diff)
		}
	}
	if tape.Forward(first) || tape.Forward(c.Seq()+1) {
		t.Error("the tape went back, or beyond its end")
	}
	if _, ok := tape.Since(first - 1); ok {
		t.Error("the tape tells what came before it")
	}
}
