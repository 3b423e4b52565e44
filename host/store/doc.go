// Package store keeps Berth's objects: one sequence of revisions for all kinds,
// compare-and-swap writes, consistent lists and watches, durable by an Engine.
//
//	Commit ─► encode ─► queue ─► sequencer: check CAS in memory
//	(callers, in parallel)          │        one synced engine write a batch
//	                                ▼
//	                   publish: trees and indexes ─► logs ─► revision ─► answers
//	                                │                 │
//	            Get, List, Indexed ◄┘                 └► Watch.Next
//
// What it keeps true:
//
//   - A commit is answered after it is durable and visible: whoever sees the
//     answer, or an event of it, reads it. Commits are all-or-nothing.
//   - A revision is of one change to one object, and is used once, also across
//     restarts and also when the last write was a deletion. Those of a commit
//     follow each other without a gap, so a watch may be cut behind any event.
//   - Objects are immutable. Readers share them with the store and with each
//     other, and never wait for a writer or the disk. Of Options.Packed, what
//     history has passed is decoded for each reader.
//   - A list shows exactly one revision, and a watch from that revision shows
//     exactly what came after it, in order, or answers ErrCompacted.
//   - An update that leaves the encoded bytes as they were keeps the revision
//     and makes no event.
//
// History lives in memory only: the engine keeps the newest state of each
// object. Lists at an older revision and watches go back for Options.History
// and Options.MaxEvents, whichever is shorter; a watch from before a restart is
// answered ErrCompacted, and its client lists anew.
//
// The store knows no kinds, no defaults and no validation, and it never
// rewrites what it is given save for the resourceVersion.
package store
