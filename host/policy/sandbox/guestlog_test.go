package sandbox

import (
	"testing"
	"time"
)

// A guest has itself built anew again and again, and says what a new instance may
// each time.
func TestThePoliciesGuestsTogetherSaySoMuch(t *testing.T) {
	t.Parallel()
	var w GuestLog
	now, said, lost := time.Unix(1000, 0), 0, 0
	flood := func(lines int) {
		for range lines {
			ok, before := w.admit(now)
			if lost += before; ok {
				said++
			}
		}
	}
	flood(100_000)
	if said != wordsBurst {
		t.Errorf("%d lines come through at once, want %d", said, wordsBurst)
	}
	for range 60 {
		now = now.Add(time.Second)
		flood(100_000)
	}
	if want := wordsBurst + 60*wordsPerRate; said != want {
		t.Errorf("after a minute it is %d lines, want %d", said, want)
	}
	now = now.Add(time.Hour)
	before := said
	flood(1)
	if said+lost != 61*100_000+1 || said != before+1 {
		t.Errorf("%d lines are said, %d told as lost, want each to be one of both", said, lost)
	}
}
