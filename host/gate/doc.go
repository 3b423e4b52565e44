// Package gate drives the checkers of readiness gates. It watches the pods
// that have gates, asks the checker whose policy claims a condition type, in
// batches and only when a pod changed or its answer is due again, and writes
// the condition. A condition type that no checker claims is left to others.
//
// An Observer looks at the world for checkers: at pods' endpoints as a kubelet's
// probes do, at objects and at nodes.
//
// Queue is pure: pods and times go in, what is due comes out. Driver acts.
package gate
