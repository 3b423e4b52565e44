// Package rollout says what becomes of a Policy: from where it stands, its spec
// and status, what has been loaded, and the time, to where it stands next and
// what is to be done for it. It is pure: plain values go in and come out. Who
// loads, asks and retires programs is the package above; it carries out what
// Next returns, and tells Next how that went.
//
// The Policy's own module:
//
//	      new Policy           ┌────────── another key ──────────┐
//	(none) ───► Loading ◄──────┤  (what was live goes on)        │
//	               │           │                                 │
//	               ├─ loads ──►│ Live ◄── withdrawn, warm, promoted (no load)
//	               │           │                                 │
//	               └─ fails ──►│ Refused                         │
//	                           │ WaitingForModule ─ the Module changes ─► Loading
//	                           │ WaitingForMemory ─ there is some ──────► Loading
//	                           │ WaitingForHost ─ a minute passes ──────► Loading
//
// A Policy that is Live is told as Off by its mode, and as Quarantined while its
// breaker is not closed. One that waits is told as Refused. What was live when
// the spec was refused stays so; after a restart it is LastGood, loaded once more.
//
// Its canary:
//
//	                     loads                the spec's module is the canary's
//	(none) ───► Loading ───────► Running ───────────────────────► Promoted: (none)
//	  ▲            │                │ faults
//	  │            ├─ fails ────► RolledBack     until the trial is another one
//	  │            └─ no Module ► Waiting ─ the Module changes ─► Loading
//	  │               or the host's trouble   or a minute passes
//	  └── the spec names none, or the mode is not Enforce
//
// What it keeps true: a spec that does not load takes nothing away that decides;
// a canary that was rolled back is not tried again, not after a restart either;
// at most two previous programs are kept warm; the same state and input give the
// same answer. What it refuses to do: load, wait, count, or look at a clock.
package rollout
