// Command http-gate holds a pod unready until its HTTP endpoints answer well.
// A guest can reach nothing: the host asks, as the setting observe says, and
// passes in what it saw.
package main

import (
	"time"

	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/gate"
	"github.com/berth-dev/berth/sdk/observe"
)

// ConditionType is what pods name in spec.readinessGates.
const ConditionType = "example.test/HTTPReady"

type httpGate struct{}

func (httpGate) Configure(c sdk.Config) error { return c.OnlyKeys("observe") }

func (httpGate) Check(_ int64, pod *gate.Pod) gate.Readiness {
	if len(pod.Observations) == 0 {
		return gate.Readiness{Status: gate.Unknown, Reason: "NothingObserved", Message: "the setting observe names no endpoint"}
	}
	for _, seen := range pod.Observations {
		if !seen.OK {
			return gate.Readiness{Status: gate.False, Reason: "NotAnswering", Message: seen.Name + ": " + seen.Detail, RequeueAfter: time.Second}
		}
	}
	return gate.Readiness{Status: gate.True, Reason: "Answering", RequeueAfter: 10 * time.Second}
}

func init() {
	sdk.Gate("HTTPGate", httpGate{}, []string{ConditionType}, sdk.Observe(observe.HTTPGet("health", 8080, "/healthz")),
		sdk.Describe("Waits until the pod's HTTP endpoints answer."))
}

func main() {}
