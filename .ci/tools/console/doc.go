// Package console walks the console by a real browser: Debian's chromium, on the
// real binary with simulated nodes. It is a module of its own, for what it drives
// the browser with is no business of Berth's.
package console
