package flowcontrol

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// Of a user's streams as many write at once as there are processors, of a crowd half as many; one whose client
// is slow holds up the others for a moment only, and never those of other users.
func TestStreamsWriteByTurn(t *testing.T) {
	t.Parallel()
	for streams, atOnce := range map[int]int{1: runtime.GOMAXPROCS(0), crowd + 1: max(1, runtime.GOMAXPROCS(0)/2)} {
		testTurns(t, streams, atOnce)
	}
}

func testTurns(t *testing.T, streams, atOnce int) {
	synctest.Test(t, func(t *testing.T) {
		f := New(Defaults(1), crowd+1)
		release, turn, err := f.Hold(who("flood"))
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		for range streams - 1 {
			more, _, err := f.Hold(who("flood"))
			if err != nil {
				t.Fatal(err)
			}
			defer more()
		}
		blocked, began := make(chan struct{}), make(chan struct{}, 10*atOnce)
		for range 3 * atOnce {
			go turn(func() {
				began <- struct{}{}
				<-blocked
			})
		}
		synctest.Wait()
		if got := len(began); got != atOnce {
			t.Errorf("%d streams write at once, want %d", got, atOnce)
		}
		other, anotherTurn, err := f.Hold(who("erin"))
		if err != nil {
			t.Fatal(err)
		}
		defer other()
		anotherTurn(func() {})
		time.Sleep(2*longTurn + time.Millisecond)
		if got := len(began); got != 3*atOnce {
			t.Errorf("%d streams have begun to write after two turns, want all %d", got, 3*atOnce)
		}
		close(blocked)
		synctest.Wait()
		if own := f.holds.byUser["flood"]; len(own.turns)+len(own.few) != 0 {
			t.Errorf("%d turns are still taken", len(own.turns)+len(own.few))
		}
	})
}
