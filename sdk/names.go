package sdk

import (
	"github.com/berth-dev/berth/sdk/facts"
	"github.com/berth-dev/berth/sdk/guest"
	"github.com/berth-dev/berth/sdk/json"
	"github.com/berth-dev/berth/sdk/row"
)

// Pod is the pod of the cycle; only the groups that the policy Reads are filled.
type Pod = facts.Pod

// Node is one node, valid during the call that gives it.
type Node = row.Node

// Config is a policy's settings, or a part of them.
type Config = json.Value

// Verdict is what a predicate says of a pod and a node: Admit, Reject or
// RejectFinal.
type Verdict = guest.Verdict

// Admit lets the pod onto the node.
var Admit = Verdict{}

// Reject keeps the pod off the node. Removing other pods from the node might
// help. The reason stands in events and in `berth explain`; keep to few
// distinct ones (at most 254 an instance), without names and numbers.
func Reject(reason string) Verdict { return guest.Reject(reason) }

// RejectFinal keeps the pod off the node, and removing other pods from it
// would not help: preemption leaves such nodes alone.
func RejectFinal(reason string) Verdict { return guest.RejectFinal(reason) }

// Module names the module in its manifest.
func Module(name, moduleVersion string) { guest.Module(name, moduleVersion) }

// Counter counts something for /metrics, where it stands as
// berth_policy_counter_total with the policy's and its own name as labels. It
// counts what guests do: answers that the host remembers are not asked for
// again, so decisions are better counted by the host's own figures.
type Counter = guest.Counter

// NewCounter declares a counter of the module: small letters, digits and '_'
// in its name, one sentence of help. Call it from a package variable or from
// init; a module has 32 of them at most.
//
//	var strange = sdk.NewCounter("strange_annotations", "Annotations that are no number.")
func NewCounter(name, help string) Counter { return guest.NewCounter(name, help) }
