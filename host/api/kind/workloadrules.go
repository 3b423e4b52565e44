package kind

import (
	"context"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	jobutil "k8s.io/kubernetes/pkg/api/job"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/apps"
	appsvalidation "k8s.io/kubernetes/pkg/apis/apps/validation"
	"k8s.io/kubernetes/pkg/apis/batch"
	batchvalidation "k8s.io/kubernetes/pkg/apis/batch/validation"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/utils/ptr"
)

var replicaSets = typed(rules[*apps.ReplicaSet]{
	onCreate: func(_ context.Context, rs *apps.ReplicaSet) {
		rs.Status, rs.Generation = apps.ReplicaSetStatus{}, 1
		podutil.DropDisabledTemplateFields(&rs.Spec.Template, nil)
	},
	onUpdate: func(_ context.Context, rs, old *apps.ReplicaSet) {
		rs.Status = old.Status
		podutil.DropDisabledTemplateFields(&rs.Spec.Template, &old.Spec.Template)
		if !apiequality.Semantic.DeepEqual(old.Spec, rs.Spec) {
			rs.Generation = old.Generation + 1
		}
	},
	validate: func(_ context.Context, rs *apps.ReplicaSet) field.ErrorList {
		return appsvalidation.ValidateReplicaSet(rs, podutil.GetValidationOptionsFromPodTemplate(&rs.Spec.Template, nil))
	},
	validateUpdate: func(_ context.Context, rs, old *apps.ReplicaSet) field.ErrorList {
		return appsvalidation.ValidateReplicaSetUpdate(rs, old, podutil.GetValidationOptionsFromPodTemplate(&rs.Spec.Template, &old.Spec.Template))
	},
	warnCreate: func(ctx context.Context, rs *apps.ReplicaSet) []string {
		return append(warnLabelName(rs.Name), podutil.GetWarningsForPodTemplate(ctx, field.NewPath("spec", "template"), &rs.Spec.Template, nil)...)
	},
	warnUpdate: func(ctx context.Context, rs, old *apps.ReplicaSet) []string {
		if rs.Generation == old.Generation {
			return nil
		}
		return podutil.GetWarningsForPodTemplate(ctx, field.NewPath("spec", "template"), &rs.Spec.Template, &old.Spec.Template)
	},
})

var replicaSetStatus = typed(rules[*apps.ReplicaSet]{
	onUpdate: func(_ context.Context, rs, old *apps.ReplicaSet) { rs.Spec = old.Spec },
	validateUpdate: func(_ context.Context, rs, old *apps.ReplicaSet) field.ErrorList {
		return appsvalidation.ValidateReplicaSetStatusUpdate(rs, old)
	},
})

var jobs = typed(rules[*batch.Job]{
	onCreate: func(_ context.Context, j *batch.Job) {
		if !*j.Spec.ManualSelector {
			selectByUID(j)
		}
		j.Status, j.Generation = batch.JobStatus{}, 1
		podutil.DropDisabledTemplateFields(&j.Spec.Template, nil)
	},
	onUpdate: func(_ context.Context, j, old *batch.Job) {
		j.Status = old.Status
		podutil.DropDisabledTemplateFields(&j.Spec.Template, &old.Spec.Template)
		if !apiequality.Semantic.DeepEqual(j.Spec, old.Spec) {
			j.Generation = old.Generation + 1
		}
	},
	validate: func(_ context.Context, j *batch.Job) field.ErrorList {
		return batchvalidation.ValidateJob(j, jobOptions(j, nil))
	},
	validateUpdate: func(_ context.Context, j, old *batch.Job) field.ErrorList {
		opts := jobOptions(j, old)
		return append(batchvalidation.ValidateJob(j, opts), batchvalidation.ValidateJobUpdate(j, old, opts)...)
	},
	warnCreate: func(ctx context.Context, j *batch.Job) []string {
		return append(warnLabelName(j.Name), jobutil.WarningsForJobSpec(ctx, field.NewPath("spec"), &j.Spec, nil)...)
	},
	warnUpdate: func(ctx context.Context, j, old *batch.Job) []string {
		if j.Generation == old.Generation {
			return nil
		}
		return jobutil.WarningsForJobSpec(ctx, field.NewPath("spec"), &j.Spec, &old.Spec)
	},
})

var jobStatus = typed(rules[*batch.Job]{
	onUpdate: func(_ context.Context, j, old *batch.Job) { j.Spec = old.Spec },
	validateUpdate: func(_ context.Context, j, old *batch.Job) field.ErrorList {
		return batchvalidation.ValidateJobUpdateStatus(j, old, jobStatusOptions(j, old))
	},
})

// selectByUID makes the job select its own pods and no others.
func selectByUID(j *batch.Job) {
	labels := j.Spec.Template.Labels
	if labels == nil {
		labels = map[string]string{}
		j.Spec.Template.Labels = labels
	}
	// What the user set by hand stays, for validation to refuse.
	set := func(m map[string]string, key, value string) {
		if _, ok := m[key]; !ok {
			m[key] = value
		}
	}
	set(labels, batch.LegacyJobNameLabel, j.Name)
	set(labels, batch.JobNameLabel, j.Name)
	set(labels, batch.LegacyControllerUidLabel, string(j.UID))
	set(labels, batch.ControllerUidLabel, string(j.UID))
	if j.Spec.Selector == nil {
		j.Spec.Selector = &metav1.LabelSelector{}
	}
	if j.Spec.Selector.MatchLabels == nil {
		j.Spec.Selector.MatchLabels = map[string]string{}
	}
	set(j.Spec.Selector.MatchLabels, batch.ControllerUidLabel, string(j.UID))
}

func jobOptions(j, old *batch.Job) batchvalidation.JobValidationOptions {
	var before *core.PodTemplateSpec
	if old != nil {
		before = &old.Spec.Template
	}
	opts := batchvalidation.JobValidationOptions{
		PodValidationOptions:  podutil.GetValidationOptionsFromPodTemplate(&j.Spec.Template, before),
		RequirePrefixedLabels: true,
	}
	if old == nil {
		return opts
	}
	opts.AllowInvalidLabelValueInSelector = opts.AllowInvalidLabelValueInSelector || metav1validation.LabelSelectorHasInvalidLabelValue(old.Spec.Selector)
	// A suspended job without active pods may still change its template, if it
	// never started or says that it is suspended.
	idle := ptr.Deref(old.Spec.Suspend, false) && old.Status.Active == 0 &&
		(old.Status.StartTime == nil || batchvalidation.IsConditionTrue(old.Status.Conditions, batch.JobSuspended))
	opts.AllowMutablePodResources = idle
	opts.AllowMutableSchedulingDirectives = idle
	_, named := before.Labels[batch.JobNameLabel]
	_, owned := before.Labels[batch.ControllerUidLabel]
	opts.RequirePrefixedLabels = named && owned
	return opts
}

// jobStatusOptions holds a status to the rules that concern what it changes.
func jobStatusOptions(j, old *batch.Job) batchvalidation.JobStatusValidationOptions {
	now, was := &j.Status, &old.Status
	indexed := ptr.Deref(j.Spec.CompletionMode, batch.NonIndexedCompletion) == batch.IndexedCompletion
	finished := batchvalidation.IsJobFinished(old) != batchvalidation.IsJobFinished(j)
	complete := batchvalidation.IsJobComplete(old) != batchvalidation.IsJobComplete(j)
	failed := batchvalidation.IsJobFailed(old) != batchvalidation.IsJobFailed(j)
	criteria := jobIs(was, batch.JobSuccessCriteriaMet) != jobIs(now, batch.JobSuccessCriteriaMet)
	completedIndexes := was.CompletedIndexes != now.CompletedIndexes
	failedIndexes := !ptr.Equal(was.FailedIndexes, now.FailedIndexes)
	active := was.Active != now.Active
	started := !ptr.Equal(was.StartTime, now.StartTime)
	ended := !ptr.Equal(was.CompletionTime, now.CompletionTime)
	completion := complete || ended
	return batchvalidation.JobStatusValidationOptions{
		RejectDecreasingSucceededCounter:             !indexed || !ptr.Equal(j.Spec.Completions, j.Spec.Parallelism),
		RejectDecreasingFailedCounter:                true,
		RejectDisablingTerminalCondition:             true,
		RejectInvalidCompletedIndexes:                completedIndexes,
		RejectInvalidFailedIndexes:                   failedIndexes,
		RejectCompletedIndexesForNonIndexedJob:       completedIndexes,
		RejectFailedIndexesForNoBackoffLimitPerIndex: failedIndexes,
		RejectFailedIndexesOverlappingCompleted:      failedIndexes || completedIndexes,
		RejectFailedJobWithoutFailureTarget:          failed || failedIndexes,
		RejectCompleteJobWithoutSuccessCriteriaMet:   complete || criteria,
		RejectFinishedJobWithActivePods:              finished || active,
		RejectFinishedJobWithoutStartTime:            (finished || started) && !needsNoStart(j),
		RejectFinishedJobWithUncountedTerminatedPods: finished || !apiequality.Semantic.DeepEqual(was.UncountedTerminatedPods, now.UncountedTerminatedPods),
		RejectStartTimeUpdateForUnsuspendedJob:       movesStart(now, was),
		RejectCompletionTimeBeforeStartTime:          started || ended,
		RejectMutatingCompletionTime:                 true,
		RejectNotCompleteJobWithCompletionTime:       completion,
		RejectCompleteJobWithoutCompletionTime:       completion,
		RejectCompleteJobWithFailedCondition:         complete || failed,
		RejectCompleteJobWithFailureTargetCondition:  complete || jobIs(was, batch.JobFailureTarget) != jobIs(now, batch.JobFailureTarget),
		AllowForSuccessCriteriaMetInExtendedScope:    true,
		RejectMoreReadyThanActivePods:                !ptr.Equal(was.Ready, now.Ready) || active,
		RejectFinishedJobWithTerminatingPods:         finished || !ptr.Equal(was.Terminating, now.Terminating),
	}
}

func jobIs(s *batch.JobStatus, condition batch.JobConditionType) bool {
	return batchvalidation.IsConditionTrue(s.Conditions, condition)
}

// needsNoStart says whether a job is done before it begins.
func needsNoStart(j *batch.Job) bool {
	return ptr.Equal(j.Spec.Suspend, ptr.To(true)) && ptr.Equal(j.Spec.Completions, ptr.To[int32](0))
}

// movesStart says whether the start is another, though the job is not one that was
// suspended and starts anew.
func movesStart(now, was *batch.JobStatus) bool {
	resumes := jobIs(was, batch.JobSuspended) && batchvalidation.IsConditionFalse(now.Conditions, batch.JobSuspended)
	return !ptr.Equal(was.StartTime, now.StartTime) && !resumes
}
