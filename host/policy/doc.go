// Package policy turns Policy and Profile objects into what decides.
//
//	Module ─► engine ─► program ─► sandbox ─┐
//	Policy ─► config, limits, mode ─────────┼─► Set ─► schedule, gate, controller
//	Profile ─► order, groups, weights ──────┘    one immutable value behind one pointer
//
// What it stands on, each below the one before it:
//
//	policy    Loader: objects → Set. A factory makes versions, a pass carries out
//	          what rollout says of one Policy, a reporter writes statuses
//	rollout   where a Policy and its canary stand, and what is to be done (pure)
//	trial     other answers beside, or for a share of the pods instead
//	sandbox   one policy's guests and their health
//	module    bytes: uploads, signatures, what is ready, what is collected
//	engine    wasm; vet, wire, schema and breaker stand beside it
//
// What it keeps true: a Set is never changed, a swap makes the next one; what does
// not load leaves the last good program of its Policy live, with the reason in
// Policy.status; the previous program stays warm, so that rolling back is one
// pointer again; who has left a set is given back when no cycle can ask it.
//
// What it refuses to do: judge pods, or serve requests.
package policy
