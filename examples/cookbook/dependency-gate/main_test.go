package main

import (
	"testing"
	"time"

	"github.com/berth-dev/berth/sdk/policytest"
)

func TestDependencyGate(t *testing.T) {
	t.Parallel()
	saw := func(seen ...policytest.Observation) policytest.GatePod {
		return policytest.GatePod{Observations: seen}
	}
	db := policytest.Observation{Name: "database", OK: true, Code: 3, Detail: "3 of 3 pods are ready"}
	queue := policytest.Observation{Name: "queue", Code: 1, Detail: "1 of 2 pods are ready"}
	policytest.RunGate(t, policytest.GateTable{
		Policy: "DependencyGate",
		Cases: []policytest.GateCase{
			{Name: "nothing is observed", Want: "Unknown", Reason: "NothingObserved"},
			{Name: "all are ready", Pod: saw(db), Want: "True", RequeueAfter: 5 * time.Second},
			{Name: "one is not", Pod: saw(db, queue), Want: "False", Reason: "DependencyNotReady", RequeueAfter: time.Second},
		},
	})
	policytest.Refuses(t, "DependencyGate", `{"depends":"db"}`)
}
