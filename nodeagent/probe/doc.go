// Package probe asks containers how they are: exec, HTTP, TCP and gRPC probes
// for startup, readiness and liveness, with the kubelet's thresholds.
//
// One goroutine holds all probes in a heap by the time they are due; only a
// probe that is being asked has a goroutine, and each ends by its timeout. The
// judgement (counting successes and failures) is a plain value.
package probe
