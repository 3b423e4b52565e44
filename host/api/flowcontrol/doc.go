// Package flowcontrol shares the API between its clients, so that a flood from one
// starves nobody: not the node agents and their leases, not the scheduler and
// the controllers, and not the other users.
//
//	request ─► level, by who sends it ─► a seat is free and nobody waits ─► runs
//	                                  └► queue of its flow ─► seat ─► runs
//	                                     too long, or too late ─► 429, Retry-After
//
// The idea is that of Kubernetes' priority and fairness, in a small form. A
// level has seats of its own, which other levels cannot take. A request takes
// one seat, a list several, since it costs more. A flow is one user. When a
// seat gets free, the flow that holds the fewest seats is next, and among
// equals the one that has waited longest. Queues are bounded for each flow and
// in all; a request that cannot wait, or has waited too long, is answered 429.
//
// Watches and streams give their seat back once they have begun. What each costs
// afterwards is bounded by itself, and how many a user may have open by Hold.
package flowcontrol
