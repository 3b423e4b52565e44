// Package job is the controller Job: it runs pods until enough of them have
// succeeded, or too many have failed.
//
//	            ┌ suspend ──► Suspended=True, its pods deleted, their failures not counted
//	pods ─ count┤ too many failures, a deadline, a policy ──► FailureTarget ──► Failed
//	            └ enough successes, a policy ──► SuccessCriteriaMet ──► Complete
//
// Each pod bears the finalizer batch.kubernetes.io/job-tracking until it is
// counted. The answer that counts it takes the finalizer off: both are one
// commit, so that status.uncountedTerminatedPods stays empty; UIDs that another
// controller left there are counted. A finished Job waits for none of its pods:
// the second arrow above is taken once none is about to go any more.
//
// Pods that failed are replaced after 10 seconds, twice as long for each failure
// since the last success, and 6 minutes at most. When the last failure was, and
// how many there were, is read from the pods that are still there, and from the
// annotation berth.dev/job-failures, which notes it where a pod counts that goes.
//
// Source: kube-controller-manager 1.36, pkg/controller/job and
// pkg/controller/ttlafterfinished, without the alpha feature WorkloadWithJob.
package job
