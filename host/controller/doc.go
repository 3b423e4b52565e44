// Package controller drives controller guests. A guest gets a parent with its
// children and says which children are wanted; the driver does the rest:
// watching, queueing, rate limits, ownership, creating and deleting.
//
//	watch parent ─┐                        ┌─ create, delete
//	watch child  ─┴► queue ─► Guest.Reconcile ─► check ─► apply ┼─ adopt, release
//	ask again ────┘                        └─ status, events
//
// An answer asks for nothing of its own result: a guest that always wants more
// never comes to rest, and writes as often as it is let. So after one stored answer
// in a thousand the guest is asked at once about the state that it made, with the
// same time, if it is just that: each object that it is told of is as it was or as
// the commit left it, and what came or went did so by the answer. What it would
// write then is told and counted, and nothing follows from it, since a policy may
// be restless and do its work. Only writes are compared: events, why, memory and
// when to ask again change no state. Left out is what is known to go on:
//
//   - an answer that says that it is a step, such as a batch of many, or a deletion
//     before what takes the place, where Kubernetes' own controllers wait for their
//     next round;
//   - one that the host cut, or of which something was refused: its result is not
//     what the guest wanted;
//   - the parent's status after an answer that wrote anything else: it counts
//     children, of which there are others now. After an answer that wrote the
//     status alone it counts.
//
// What a guest asks for is done only as far as its manifest allows: kinds that
// it declared, in the parent's namespace, owned by the parent.
package controller
