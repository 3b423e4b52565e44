// Command dependency-gate holds a pod unready until the pods that it depends on
// are there and ready. Which those are says the setting observe, by selector;
// the host looks, and passes in what it saw.
package main

import (
	"time"

	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/gate"
	"github.com/berth-dev/berth/sdk/observe"
)

// ConditionType is what pods name in spec.readinessGates.
const ConditionType = "example.test/DependenciesReady"

type dependencyGate struct{}

func (dependencyGate) Configure(c sdk.Config) error { return c.OnlyKeys("observe") }

func (dependencyGate) Check(_ int64, pod *gate.Pod) gate.Readiness {
	for _, seen := range pod.Observations {
		if !seen.OK {
			return gate.Readiness{
				Status: gate.False, Reason: "DependencyNotReady", Message: seen.Name + ": " + seen.Detail, RequeueAfter: time.Second,
			}
		}
	}
	if len(pod.Observations) == 0 {
		return gate.Readiness{Status: gate.Unknown, Reason: "NothingObserved", Message: "the setting observe names no dependency"}
	}
	return gate.Readiness{Status: gate.True, Reason: "DependenciesReady", RequeueAfter: 5 * time.Second}
}

func init() {
	sdk.Gate("DependencyGate", dependencyGate{}, []string{ConditionType},
		sdk.Observe(observe.PodsReady("database", "app=db")),
		sdk.Describe("Waits until the pods that a pod depends on are ready."))
}

func main() {}
