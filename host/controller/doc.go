// Package controller drives controller guests. A guest gets a parent with its
// children and says which children are wanted; the driver does the rest:
// watching, queueing, rate limits, ownership, creating and deleting.
//
//	watch parent ─┐                        ┌─ create, delete
//	watch child  ─┴► queue ─► Guest.Reconcile ─► check ─► apply ┼─ adopt, release
//	ask again ────┘                        └─ status, events
//
// What a guest asks for is done only as far as its manifest allows: kinds that
// it declared, in the parent's namespace, owned by the parent.
package controller
