// Package policy turns Policy and Profile objects into what decides.
//
//	Module ─► engine ─► program ─► sandbox ─┐
//	Policy ─► config, limits, mode ─────────┼─► Set ─► schedule, gate, controller
//	Profile ─► order, groups, weights ──────┘    one immutable value behind one pointer
//
// A Set is never changed; a swap makes the next one. What does not load leaves
// the last good program of its Policy live, with the reason in Policy.status.
// The former program stays warm, so that rolling back is one pointer again.
package policy
