// Package trial has other answers made beside those that decide, or for a share
// of the pods instead of them, and says how they differ.
//
//	what                     share   source                  who runs it
//	shadow                   0       live: each cycle's end  Trial.Compare
//	canary                   1…100   live: each cycle's end  Route, Trial.Compare
//	shadow of a controller   0       live: each answer       Differences.Answered
//	canary of a controller   1…100   live: each answer       Takes, Answered
//	dry run, plan, rehearsal 0       recorded, or supposed   Variation, explain
//	replay, diff             0       recorded                Provenance, explain
//
// A Trial is of the live source: it counts, and a canary's ends at its first
// fault. For recorded decisions the Variation says what would be other, the
// loader opens a set with it, and package explain judges by both.
//
// What it keeps true: what is tried decides no more than its share, and nothing
// once it has failed; pods are compared before they count anywhere; the same pod
// has the same place each time. What it refuses to do: load modules, write
// statuses, or decide what becomes of a canary that ended (package rollout).
package trial
