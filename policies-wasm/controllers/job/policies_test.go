package job

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/host/controller/controllertest"
)

func TestFailurePolicies(t *testing.T) {
	t.Parallel()
	onExit := func(action batchv1.PodFailurePolicyAction, codes ...int32) batchv1.PodFailurePolicyRule {
		return batchv1.PodFailurePolicyRule{Action: action, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
			ContainerName: ptr.To("c"), Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: codes,
		}}
	}
	rules := func(list ...batchv1.PodFailurePolicyRule) func(*batchv1.JobSpec) {
		return func(s *batchv1.JobSpec) { s.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: list} }
	}
	disrupted := batchv1.PodFailurePolicyRule{
		Action:          batchv1.PodFailurePolicyActionIgnore,
		OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue}},
	}
	t.Run("an exit code fails the job", func(t *testing.T) {
		play(t, func(w world) {
			w.create(wanted(rules(onExit(batchv1.PodFailurePolicyActionFailJob, 42))))
			w.Wait(time.Second)
			p := w.pods()[0]
			w.end(42, func(one *v1.Pod) bool { return one.Name == p.Name })
			w.want("conditions", w.conditions(), "FailureTarget=True/PodFailurePolicy Failed=True/PodFailurePolicy")
			message := "Container c for pod default/" + p.Name + " failed with exit code 42 matching FailJob rule at index 0"
			w.want("message", w.job().Status.Conditions[1].Message, message)
			w.want("events", w.events(), []string{"pi Warning PodFailurePolicy: " + message})
			w.want("counts", w.counts(), "0/0/0 0+2")
		})
	})
	t.Run("an exit code is ignored", func(t *testing.T) {
		play(t, func(w world) {
			w.create(wanted(times(1, 1), limit(0), rules(onExit(batchv1.PodFailurePolicyActionIgnore, 13))))
			w.Wait(time.Second)
			w.end(13, nil)
			w.Wait(10 * time.Second)
			w.end(0, nil)
			w.want("conditions", w.conditions(), "SuccessCriteriaMet=True/CompletionsReached Complete=True/CompletionsReached")
			w.want("counts", w.counts(), "0/0/0 1+0")
		})
	})
	t.Run("a disruption is ignored", func(t *testing.T) {
		play(t, func(w world) {
			w.create(wanted(times(1, 1), limit(0), rules(disrupted)))
			w.Wait(time.Second)
			w.SetPod(w.pods()[0].Name, func(p *v1.Pod) {
				p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{Type: v1.DisruptionTarget, Status: v1.ConditionTrue})
			})
			w.end(143, nil)
			w.Wait(10 * time.Second)
			w.end(0, nil)
			w.want("counts", w.counts(), "0/0/0 1+0")
		})
	})
	t.Run("an exit code fails an index", func(t *testing.T) {
		play(t, func(w world) {
			w.create(wanted(times(2, 2), indexed, perIndex(1), rules(onExit(batchv1.PodFailurePolicyActionFailIndex, 42))))
			w.Wait(time.Second)
			w.end(42, indexIs("0"))
			w.end(0, nil)
			s := w.job().Status
			w.want("indexes", s.CompletedIndexes+"+"+ptr.Deref(s.FailedIndexes, "none"), "1+0")
			w.want("conditions", w.conditions(), "FailureTarget=True/FailedIndexes Failed=True/FailedIndexes")
		})
	})
}

func perIndex(n int32) func(*batchv1.JobSpec) {
	return func(s *batchv1.JobSpec) { s.BackoffLimitPerIndex, s.BackoffLimit = &n, nil }
}

func TestBackoffLimitPerIndex(t *testing.T) {
	t.Parallel()
	t.Run("the failures of an index are noted on the pod that replaces it", func(t *testing.T) {
		play(t, func(w world) {
			w.create(wanted(times(2, 2), indexed, perIndex(1)))
			w.Wait(time.Second)
			w.want("failures", w.pods()[0].Annotations[failureCount], "0")
			w.end(1, indexIs("0"))
			w.want("pods that are tracked", w.tracked(), 2)
			w.want("counts", w.counts(), "1/1/0 0+0")
			w.Wait(10 * time.Second)
			w.want("counts", w.counts(), "2/2/0 0+1")
			for _, p := range w.pods() {
				if indexIs("0")(p) && p.Status.Phase == v1.PodRunning {
					w.want("failures", p.Annotations[failureCount], "1")
				}
			}
			w.end(1, indexIs("0"))
			w.end(0, nil)
			s := w.job().Status
			w.want("indexes", s.CompletedIndexes+"+"+ptr.Deref(s.FailedIndexes, "none"), "1+0")
			w.want("conditions", w.conditions(), "FailureTarget=True/FailedIndexes Failed=True/FailedIndexes")
			w.want("events", w.events(), []string{"pi Warning FailedIndexes: Job has failed indexes"})
			w.want("pods that are tracked", w.tracked(), 0)
		})
	})
	t.Run("too many failed indexes end the job", func(t *testing.T) {
		play(t, func(w world) {
			w.create(wanted(times(4, 4), indexed, perIndex(0), func(s *batchv1.JobSpec) { s.MaxFailedIndexes = ptr.To[int32](0) }))
			w.Wait(time.Second)
			w.end(1, indexIs("2"))
			w.want("conditions", w.conditions(), "FailureTarget=True/MaxFailedIndexesExceeded Failed=True/MaxFailedIndexesExceeded")
			w.want("counts", w.counts(), "0/0/0 0+4")
		})
	})
}

func TestSuccessPolicies(t *testing.T) {
	t.Parallel()
	policy := func(indexes *string, count *int32) func(*batchv1.JobSpec) {
		return func(s *batchv1.JobSpec) {
			s.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededIndexes: indexes, SucceededCount: count}}}
		}
	}
	for name, rule := range map[string]func(*batchv1.JobSpec){
		"by indexes": policy(ptr.To("0"), nil), "by count": policy(nil, ptr.To[int32](1)), "by both": policy(ptr.To("0-2"), ptr.To[int32](1)),
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(w world) {
				w.create(wanted(times(3, 5), indexed, rule))
				w.Wait(time.Second)
				w.end(0, indexIs("0"))
				w.want("conditions", w.conditions(), "SuccessCriteriaMet=True/SuccessPolicy Complete=True/SuccessPolicy")
				w.want("message", w.job().Status.Conditions[1].Message, "Matched rules at index 0")
				w.want("counts", w.counts(), "0/0/0 1+0")
				w.want("completed indexes", w.job().Status.CompletedIndexes, "0")
				w.want("events", w.events(), []string{"pi Normal Completed: Job completed"})
			})
		})
	}
}

// A pod that is deleted, and gone at once, is replaced as late as others.
func TestPodReplacementPolicy(t *testing.T) {
	t.Parallel()
	for policy, want := range map[batchv1.PodReplacementPolicy]string{batchv1.TerminatingOrFailed: "1/1/1 0+1", batchv1.Failed: "0/0/1 0+0"} {
		t.Run(string(policy), func(t *testing.T) {
			play(t, func(w world) {
				w.create(wanted(times(1, 1), func(s *batchv1.JobSpec) { s.PodReplacementPolicy = &policy }))
				w.Wait(time.Second)
				name := w.pods()[0].Name
				w.hold(name)
				w.Delete("pods", name, &metav1.DeleteOptions{})
				w.Wait(9 * time.Second)
				w.want("pods before the pause is over", len(w.pods()), 1)
				w.Wait(3 * time.Second)
				w.want("counts", w.counts(), want)
				w.SetPod(name, controllertest.Ended(1))
				w.Wait(12 * time.Second)
				w.want("counts", w.counts(), "1/1/0 0+1")
			})
		})
	}
}
