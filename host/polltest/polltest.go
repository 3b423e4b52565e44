// Package polltest waits, in tests, for what runs for real: processes, sockets,
// files, and hosts that are made of these. What runs without them is tested in a
// bubble of testing/synctest, where no time passes.
package polltest

import (
	"testing"
	"time"
)

// limit is how long something may take on a machine that is busy.
const limit = time.Minute

// Until looks until what is met. The test fails if it never comes.
func Until(t testing.TB, what string, met func() bool) {
	t.Helper()
	if !Within(limit, met) {
		t.Fatalf("it never came that %s", what)
	}
}

// Within looks until it is met, for as long as limit, and says whether it was: for
// those who have more to say than what never came.
func Within(limit time.Duration, met func() bool) bool {
	const often, seldom = time.Millisecond, 50 * time.Millisecond
	end := time.After(limit)
	for wait := often; !met(); wait = min(2*wait, seldom) {
		select {
		case <-end:
			return met()
		case <-time.After(wait):
		}
	}
	return true
}

// Pass lets time pass that something real takes: until a process is killed at a
// random moment, or until a deadline of the kernel's is over.
func Pass(d time.Duration) { <-time.After(d) }
