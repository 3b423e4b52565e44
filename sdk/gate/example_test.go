package gate_test

import (
	"fmt"
	"time"

	"github.com/berth-dev/berth/sdk/gate"
)

// well waits until all that the host observed of a pod is well.
type well struct{}

func (well) Check(_ int64, pod *gate.Pod) gate.Readiness {
	for _, seen := range pod.Observations {
		if !seen.OK {
			return gate.Readiness{Status: gate.False, Reason: "NotYet", Message: seen.Detail, RequeueAfter: time.Second}
		}
	}
	return gate.Readiness{Status: gate.True, Reason: "AllWell"}
}

func ExampleChecker() {
	var checker gate.Checker = well{}
	r := checker.Check(0, &gate.Pod{Observations: []gate.Observation{{OK: true}, {Detail: "0 of 1 pods are ready"}}})
	fmt.Println(r.Status, r.Reason, r.Message)
	// Output: False NotYet 0 of 1 pods are ready
}
