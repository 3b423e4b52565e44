// Package fake is a runtime without containers, for tests: processes are
// goroutines that understand a few words of shell (echo, sleep, exit, cat,
// trap, true, false, wait), so that the conformance suite holds for it too.
// Its clock is the time package's: it works inside a synctest bubble.
package fake
