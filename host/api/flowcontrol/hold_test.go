package flowcontrol

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// Of a user's streams as many write at once as there are processors; one whose client
// is slow holds up the others for a moment only, and never those of other users.
func TestStreamsWriteByTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := small(1, 1, 1)
		release, turn, err := f.Hold(who("flood"))
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		atOnce := runtime.GOMAXPROCS(0)
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
		if got := len(f.holds.byUser["flood"].turns); got != 0 {
			t.Errorf("%d turns are still taken", got)
		}
	})
}
