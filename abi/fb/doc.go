// Package fb is what flatc makes of berth.fbs. Its readers do not verify what
// they read: a malformed record panics (traps in a guest), and so they read
// only what the host wrote, never what a guest answered.
package fb
