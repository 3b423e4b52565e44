package sandbox

import (
	"fmt"
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// A model of a guest that is told what told says holds what each slot is at, over
// many changes, and no more rows than it needs.
func TestAGuestHoldsWhatItIsAskedAbout(t *testing.T) {
	t.Parallel()
	const slots = 50
	random := rand.New(rand.NewPCG(5, 6))
	rows, guest := make([]*snapshot.Row, slots), map[int32]string{}
	change := func(slot, kinds int) {
		labels := map[string]string{"kind": fmt.Sprint(random.IntN(kinds))}
		rows[slot] = &snapshot.Row{Slot: int32(slot), Node: &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(slot), Labels: labels}}}
	}
	var book told
	book.reset()
	for slot := range rows {
		change(slot, 3)
	}
	for step := range 20_000 {
		kinds := 5
		if step > 5000 {
			kinds = 1 << 20 // all differ, so that places are used again
		}
		slot := random.IntN(slots)
		if random.IntN(2) == 0 {
			change(slot, kinds)
			book.forget(int32(slot))
			continue
		}
		at, isNew := book.find(int32(slot), rows[slot], abi.NodeLabels)
		if isNew {
			guest[at] = rows[slot].Node.Labels["kind"]
		}
		if guest[at] != rows[slot].Node.Labels["kind"] {
			t.Fatalf("step %d: the guest takes slot %d for one of kind %s, it is of kind %s", step, slot, guest[at], rows[slot].Node.Labels["kind"])
		}
		if step < 5000 && len(guest) > 5 {
			t.Errorf("it was told of %d rows, where there are no more than 5 kinds", len(guest))
		}
	}
	if most := slots + keptSpare + 2; len(book.rows) > most || len(book.byHash) > most {
		t.Errorf("it holds %d rows, %d by hash, for %d slots; want %d at most", len(book.rows), len(book.byHash), slots, most)
	}
}

// Of rows that a guest takes for one, a failure names that which was asked about.
func TestAFailureIsAtTheRowThatWasAskedAbout(t *testing.T) {
	t.Parallel()
	c := snapshot.New(0)
	for _, name := range []string{"a", "b"} {
		c.UpsertNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"k": "1"}}})
	}
	s := New(&Program{info: framework.Info{Scope: abi.ScopeRow, Reads: abi.NodeLabels}})
	s.told.reset()
	s.about = subject{rows: c}
	at, _ := s.told.find(0, c.Row(0), abi.NodeLabels)
	if other, isNew := s.told.find(1, c.Row(1), abi.NodeLabels); other != at || isNew {
		t.Fatal("rows with the same labels are not one to the guest")
	}
	for _, slot := range []int32{0, 1, 0} {
		if news, err := s.tell([]int32{slot}); news || err != nil {
			t.Fatalf("tell(%d) = %v, %v of a row that is known", slot, news, err)
		}
		if got := s.place(&engine.Failure{At: at}); got != slot {
			t.Errorf("a failure is at slot %d, want %d, which was asked about", got, slot)
		}
	}
	if got := s.place(&engine.Failure{At: -1}); got != none {
		t.Errorf("where the guest does not say, the slot is %d", got)
	}
}

func TestAGuestForgetsWhatTheLogDoesNotTell(t *testing.T) {
	t.Parallel()
	c := snapshot.New(0)
	c.UpsertNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"k": "1"}}})
	var book told
	book.reset()
	first, isNew := book.find(0, c.Row(0), abi.NodeLabels)
	if !isNew {
		t.Error("the first row is known")
	}
	seq := c.Seq()
	c.UpsertNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"k": "2"}}})
	deltas, known := c.Since(seq)
	book.follow(deltas, known, abi.NodeTaints)
	if at, isNew := book.find(0, c.Row(0), abi.NodeLabels); isNew || at != first {
		t.Error("a change of labels counts for who reads taints")
	}
	book.follow(deltas, known, abi.NodeLabels)
	if at, isNew := book.find(0, c.Row(0), abi.NodeLabels); !isNew || at == first {
		t.Error("a change of labels does not count for who reads labels")
	}
	book.follow(snapshot.Deltas{}, false, abi.NodeLabels)
	if book.rowOf[0] != none {
		t.Error("a log that does not reach back leaves what was known")
	}
}
