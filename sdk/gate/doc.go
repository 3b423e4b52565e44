// Package gate is what a readiness gate is asked and what it answers.
//
//	func (well) Check(now int64, pod *gate.Pod) gate.Readiness {
//		for _, seen := range pod.Observations {
//			if !seen.OK {
//				return gate.Readiness{Status: gate.False, Reason: "NotYet", RequeueAfter: time.Second}
//			}
//		}
//		return gate.Readiness{Status: gate.True, Reason: "AllWell"}
//	}
//
// A gate is registered by sdk.Gate. What the host shall look at for it is said by
// sdk.Observe, with the words of package observe.
package gate
