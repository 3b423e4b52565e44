package event

import (
	"slices"
	"strconv"
	"testing"
)

func TestAQueueKeepsOrderWithinItsBound(t *testing.T) {
	t.Parallel()
	q := newQueue()
	var got, want []string
	var taken []occurrence
	fill := func(n int) {
		for range n {
			message := strconv.Itoa(len(want))
			if !q.put(occurrence{message: message}) {
				t.Fatalf("event %s has no place", message)
			}
			want = append(want, message)
		}
	}
	drain := func() {
		taken = q.take(taken)
		for _, one := range taken {
			got = append(got, one.message)
		}
	}
	for _, n := range []int{1, 3, spare + 1, 2, 0, 5} {
		fill(n)
		drain()
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d events came, want %d in their order", len(got), len(want))
	}
	fill(queued)
	if q.put(occurrence{}) {
		t.Error("a full queue takes more")
	}
	if drain(); cap(q.take(taken)) > spare {
		t.Errorf("an empty queue keeps memory for %d", cap(q.waiting))
	}
}

func TestAQueueWakesItsReader(t *testing.T) {
	t.Parallel()
	q := newQueue()
	for range 3 {
		q.put(occurrence{})
		q.put(occurrence{})
		<-q.more // or the test hangs
		if n := len(q.take(nil)); n != 2 {
			t.Fatalf("%d events were there, want 2", n)
		}
	}
}
