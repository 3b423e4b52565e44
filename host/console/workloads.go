package console

import (
	"cmp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/host/store"
)

// maxRows is how many rows of a table a frame holds, at most one a second: it keeps
// a tab below 64 KiB/s.
const maxRows = 250

// workloadRow is how far a workload has come.
type workloadRow struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Want is how many pods are wanted, Ready how many are ready (of a Job: have
	// succeeded), Updated how many are of the newest template (of a Job: are at
	// work), Old how many are of former ones (of a Job: have failed).
	Want    int32 `json:"want"`
	Ready   int32 `json:"ready"`
	Updated int32 `json:"updated"`
	Old     int32 `json:"old"`
	// State is Complete, Progressing, Stuck, Paused or Failed.
	State   string `json:"state"`
	Message string `json:"message,omitempty"`
	Since   int64  `json:"since"`
}

// workloadKinds are the kinds of the view by resource.
var workloadKinds = map[string]string{
	"deployments.apps": "Deployment", "statefulsets.apps": "StatefulSet", "daemonsets.apps": "DaemonSet", "jobs.batch": "Job",
}

func workloadOf(resource string, o store.Object) workloadRow {
	if job, ok := o.(*batchv1.Job); ok {
		return jobOf(rowOf(resource, o), job)
	}
	return rolledOut(rowOf(resource, o), o)
}

func rowOf(resource string, o store.Object) workloadRow {
	return workloadRow{Kind: workloadKinds[resource], Namespace: o.GetNamespace(), Name: o.GetName(), Since: o.GetCreationTimestamp().UnixMilli()}
}

// rolledOut tells how far a roll-out is, by the rules of kubectl rollout status.
func rolledOut(row workloadRow, o store.Object) workloadRow {
	var seen int64
	var kept int32 // pods that may stay of former templates
	switch w := o.(type) {
	case *appsv1.Deployment:
		seen = w.Status.ObservedGeneration
		row.Want, row.Ready, row.Updated = or(w.Spec.Replicas, 1), w.Status.ReadyReplicas, w.Status.UpdatedReplicas
		row.Old = w.Status.Replicas - w.Status.UpdatedReplicas
		row.State, row.Message = haltOf(w)
	case *appsv1.StatefulSet:
		seen = w.Status.ObservedGeneration
		row.Want, row.Ready, row.Updated = or(w.Spec.Replicas, 1), w.Status.ReadyReplicas, w.Status.UpdatedReplicas
		row.Old, kept = w.Status.Replicas-w.Status.UpdatedReplicas, keptOf(w)
	case *appsv1.DaemonSet:
		seen = w.Status.ObservedGeneration
		row.Want, row.Ready, row.Updated = w.Status.DesiredNumberScheduled, w.Status.NumberReady, w.Status.UpdatedNumberScheduled
		row.Old = w.Status.CurrentNumberScheduled - w.Status.UpdatedNumberScheduled
		if w.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType {
			kept = row.Want
		}
	}
	row.Old = max(row.Old, 0)
	switch {
	case row.State != "":
	case seen < o.GetGeneration():
		row.State, row.Message = "Progressing", "its controller has not looked at its newest spec yet"
	case row.Ready >= row.Want && row.Updated >= row.Want-kept && row.Old <= kept:
		row.State = "Complete"
	default:
		row.State = "Progressing"
	}
	return row
}

// haltOf is the state of a Deployment that does not get on, empty for one that may.
func haltOf(d *appsv1.Deployment) (state, message string) {
	for _, c := range d.Status.Conditions {
		switch {
		case c.Type == appsv1.DeploymentProgressing && c.Status == v1.ConditionFalse:
			state, message = "Stuck", c.Message
		case c.Type == appsv1.DeploymentReplicaFailure && c.Status == v1.ConditionTrue:
			state, message = "Failed", c.Message
		}
	}
	if d.Spec.Paused {
		state = "Paused"
	}
	return state, message
}

// keptOf is how many pods a StatefulSet leaves as they are: those below its partition,
// or all that nobody deletes.
func keptOf(s *appsv1.StatefulSet) int32 {
	want, rolling := or(s.Spec.Replicas, 1), s.Spec.UpdateStrategy.RollingUpdate
	switch {
	case s.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType:
		return want
	case rolling == nil:
		return 0
	}
	return min(or(rolling.Partition, 0), want)
}

func jobOf(row workloadRow, job *batchv1.Job) workloadRow {
	row.Want = or(job.Spec.Completions, or(job.Spec.Parallelism, 1))
	row.Ready, row.Updated, row.Old = job.Status.Succeeded, job.Status.Active, job.Status.Failed
	row.State = "Progressing"
	if job.Spec.Suspend != nil && *job.Spec.Suspend {
		row.State = "Paused"
	}
	for _, c := range job.Status.Conditions {
		if c.Status != v1.ConditionTrue {
			continue
		}
		switch c.Type {
		case batchv1.JobComplete:
			row.State = "Complete"
		case batchv1.JobFailed, batchv1.JobFailureTarget:
			row.State, row.Message = "Failed", c.Message
		}
	}
	return row
}

func or(n *int32, unset int32) int32 {
	if n == nil {
		return unset
	}
	return *n
}

// workloadStates are ordered by how much somebody should look.
var workloadStates = []string{"Failed", "Stuck", "Progressing", "Paused", "Complete"}

func byState(a, b workloadRow) int {
	return cmp.Or(
		cmp.Compare(slices.Index(workloadStates, a.State), slices.Index(workloadStates, b.State)),
		strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name), strings.Compare(a.Kind, b.Kind),
	)
}

// named is what the filter and the chosen one of a table are compared with.
func (r workloadRow) named() string { return r.Kind + "/" + r.Namespace + "/" + r.Name }
