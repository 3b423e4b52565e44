// Package pod is the core of a pod worker: what one pod needs next.
//
// It takes values and a time, and gives values: a Record holds all that is
// known of a pod, Observe brings in what the runtime shows, Next names the one
// action that is due, and Status says what the API should be told. Nothing
// here blocks, reads a clock, or touches the machine, so that each decision
// can be tested in a table and made again after a restart from the record
// alone.
//
//	          ┌────────── rejected ──────────────────────────────┐
//	admitted ─┴► set up ─► sandbox ─► init… ─► containers ─► stop ┴► tear down ─► finish
//	               ▲          │ died    ▲ restart │ exited              (removed from API)
//	               └──────────┘         └─────────┘
//
// One action runs at a time for each pod.
package pod
