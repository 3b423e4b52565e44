// Package queue holds the pods that have no node yet.
//
//	         Add                    Pop
//	──────────┬──────────► active ────────► in flight ──► bound: Delete
//	  has gates│             ▲  ▲               │    │
//	           ▼   gates gone│  │time or idle   │    │ failed: Backoff
//	         gated ──────────┘  │               │    ▼
//	                            └─── backoff ◄──┼────┘
//	                                    ▲       │ fits nowhere: Wait
//	              a change that could   │       ▼
//	              help (groups)         └─── waiting
//
// Higher priority goes first, then who came first. Waiting pods lie by the
// groups of facts in which a change could help them; nothing is polled. It is
// pure: times are given to it.
package queue
