package main

import (
	"testing"
	"time"

	"github.com/berth-dev/berth/sdk/policytest"
)

func TestHTTPGate(t *testing.T) {
	t.Parallel()
	saw := func(seen ...policytest.Observation) policytest.GatePod {
		return policytest.GatePod{Observations: seen}
	}
	well := policytest.Observation{Name: "health", OK: true, Code: 200, Detail: "200 OK"}
	policytest.RunGate(t, policytest.GateTable{
		Policy: "HTTPGate",
		Cases: []policytest.GateCase{
			{Name: "nothing is observed", Want: "Unknown", Reason: "NothingObserved"},
			{Name: "all answer", Pod: saw(well, policytest.Observation{Name: "warm", OK: true, Code: 204}), Want: "True"},
			{Name: "one does not", Pod: saw(well, policytest.Observation{Name: "warm", Code: 503, Detail: "503"}), Want: "False", RequeueAfter: time.Second},
		},
	})
	policytest.Refuses(t, "HTTPGate", `{"endpoint":"/"}`)
}
