// Package nodeagent runs the pods that are bound to one machine and tells the
// API what became of them.
//
// An agent watches the pods whose spec.nodeName is its own, gives each a
// worker, and lets the worker's pure core compare what the pod wants with what
// the runtime shows. It reaches the API by client-go alone, the machine by the
// seams runtime, network and image, each with a fake and a conformance suite.
//
// It keeps true: a pod is never started twice, a pod that is deleted leaves
// nothing behind, and a restart of the agent is not seen by the pods.
// It refuses to decide where pods go, save for the admission of those that
// were bound past the scheduler.
package nodeagent
