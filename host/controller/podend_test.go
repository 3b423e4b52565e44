package controller

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestFactsOfAPodsEnd(t *testing.T) {
	t.Parallel()
	at := func(s int) metav1.Time { return metav1.NewTime(time.Date(2026, 3, 1, 12, 0, s, 0, time.UTC)) }
	ended := func(name string, code int32, s int) v1.ContainerStatus {
		return v1.ContainerStatus{Name: name, RestartCount: 2, State: v1.ContainerState{
			Terminated: &v1.ContainerStateTerminated{ExitCode: code, FinishedAt: at(s)},
		}}
	}
	sidecar := v1.Container{Name: "side", RestartPolicy: ptr.To(v1.ContainerRestartPolicyAlways)}
	unready := v1.PodCondition{Type: v1.PodReady, Status: v1.ConditionFalse, LastTransitionTime: at(7)}
	disrupted := v1.PodCondition{Type: v1.DisruptionTarget, Status: v1.ConditionTrue}
	goes := at(40)
	tests := map[string]struct {
		pod  v1.Pod
		want string
	}{
		"a pod that runs": {pod: v1.Pod{Status: v1.PodStatus{Phase: v1.PodRunning, Conditions: []v1.PodCondition{unready}}}},
		"a pod that runs, to be disrupted": {
			v1.Pod{Status: v1.PodStatus{Phase: v1.PodRunning, Conditions: []v1.PodCondition{unready, disrupted}}},
			`{"conditions":[{"type":"DisruptionTarget","status":"True"}]}`,
		},
		"the last container says when": {
			v1.Pod{Status: v1.PodStatus{Phase: v1.PodSucceeded, ContainerStatuses: []v1.ContainerStatus{ended("a", 0, 5), ended("b", 0, 3)}}},
			`{"at":"2026-03-01T12:00:05Z"}`,
		},
		"a sidecar ends after the others": {
			v1.Pod{
				Spec: v1.PodSpec{InitContainers: []v1.Container{sidecar}},
				Status: v1.PodStatus{
					Phase: v1.PodFailed, ContainerStatuses: []v1.ContainerStatus{ended("a", 3, 5)},
					InitContainerStatuses: []v1.ContainerStatus{ended("side", 137, 9), ended("init", 0, 20)},
				},
			},
			`{"at":"2026-03-01T12:00:09Z","exits":[{"container":"a","code":3},{"container":"side","code":137}]}`,
		},
		"readiness says when, where a container does not": {
			v1.Pod{Status: v1.PodStatus{Phase: v1.PodFailed, Conditions: []v1.PodCondition{unready}, ContainerStatuses: []v1.ContainerStatus{{Name: "a"}}}},
			`{"at":"2026-03-01T12:00:07Z","conditions":[{"type":"Ready","status":"False"}]}`,
		},
		"the deletion says when": {
			v1.Pod{
				ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &goes, DeletionGracePeriodSeconds: ptr.To[int64](30)},
				Status:     v1.PodStatus{Phase: v1.PodRunning},
			},
			`{"at":"2026-03-01T12:00:10Z"}`,
		},
		"else its creation": {
			v1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(1)}, Status: v1.PodStatus{Phase: v1.PodFailed}},
			`{"at":"2026-03-01T12:00:01Z"}`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := podEnd(&tt.pod)
			if err != nil || string(got) != tt.want {
				t.Errorf("podEnd = %s, %v, want %s", got, err, tt.want)
			}
		})
	}
	pod := &v1.Pod{Status: v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{ended("a", 0, 1)}, InitContainerStatuses: []v1.ContainerStatus{ended("b", 0, 1)}}}
	if got, err := podRestarts(pod); err != nil || string(got) != "4" {
		t.Errorf("podRestarts = %s, %v, want 4", got, err)
	}
	w := kindWatch{kind: Kind{Facts: []string{"pod.restarts"}}, fields: &fields{}}
	if more := pod.DeepCopy(); !w.same(pod, more) {
		t.Error("the same pod is not the same")
	} else if more.Status.InitContainerStatuses[0].RestartCount++; w.same(pod, more) {
		t.Error("a pod with one restart more is the same")
	}
}
