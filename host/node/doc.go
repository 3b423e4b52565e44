// Package node watches over the nodes of the cluster: one that falls silent
// becomes Ready=Unknown and is tainted as Kubernetes' node lifecycle controller
// does it, its pods go after their tolerationSeconds, and pods whose node is
// gone for good are collected.
//
//	          lease renewed                    40 s of silence
//	Ready ◄──────────────────── Unknown ◄───────────────────────── Ready
//	  │ taints by condition        │ unreachable:NoSchedule, NoExecute
//	  ▼                            ▼
//	pods stay               tolerationSeconds ─► evicted ─► node deleted ─► collected
//
// The taint that evicts comes at a pace, zone by zone, and not at all while no node is
// ready: then it is likelier that nobody hears them than that all have died.
//
// Judging is pure: values and a time in, wanted conditions, taints and
// evictions out. Only Controller acts.
package node
