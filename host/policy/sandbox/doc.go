// Package sandbox runs one policy's guests: a Program is a module, which of its
// policies, and the config; a Sandbox is one instance of it that follows a
// snapshot, and answers as a predicate, priority, gate or controller.
//
//	Program ─► Open ─► instance ─► follow (rows told) ─► Pod ─► Filter, Score, WhatIf
//	             ▲                        │ fails, gives its memory up, or lags too far
//	             └────────────────────────┘ thrown away; the next cycle opens another
//
// What it keeps true: a guest's failure is an error that names the policy, pod and
// node, is counted in the Policy's Health, and touches nobody else; a guest that
// keeps failing is not asked (package breaker); who waits for nobody gives its
// memory up first; a program's code stays as long as somebody holds it.
//
// What it refuses to do: know of objects in the store, of sets and of profiles,
// or decide which module is live. That is package policy's.
package sandbox
