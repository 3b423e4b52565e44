package minreadyseconds

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/wire"
	"github.com/berth-dev/berth/sdk/guest"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func pod(status v1.ConditionStatus, since time.Duration, annotations map[string]string) wire.GatePod {
	return wire.GatePod{Condition: ConditionType, Pod: &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", Annotations: annotations},
		Status: v1.PodStatus{Conditions: []v1.PodCondition{
			{Type: v1.PodScheduled, Status: v1.ConditionTrue},
			{Type: v1.ContainersReady, Status: status, LastTransitionTime: metav1.NewTime(now.Add(-since))},
		}},
	}}
}

func TestCheck(t *testing.T) {
	pods := []wire.GatePod{
		pod(v1.ConditionFalse, time.Hour, nil),
		pod(v1.ConditionTrue, 4*time.Second, nil),
		pod(v1.ConditionTrue, 5*time.Second, nil),
		pod(v1.ConditionTrue, 5*time.Second, map[string]string{annotation: "60"}),
		pod(v1.ConditionTrue, 5*time.Second, map[string]string{annotation: "much"}),
		{Condition: ConditionType, Pod: &v1.Pod{}},
	}
	want := []abi.Readiness{
		{Status: "False", Reason: "ContainersNotReady"},
		{Status: "False", Reason: "ReadyTooShort", RequeueAfterNanos: 1e9},
		{Status: "True", Reason: "ReadyLongEnough"},
		{Status: "False", Reason: "ReadyTooShort", RequeueAfterNanos: 55e9},
		{Status: "True", Reason: "ReadyLongEnough"},
		{Status: "False", Reason: "ContainersNotReady"},
	}
	in, err := guest.Open([]byte(`{"policy":"MinReadySeconds","config":{"seconds":5}}`))
	if err != nil {
		t.Fatal(err)
	}
	b, err := in.Gate(wire.NewEncoder().Gate(now.UnixNano(), pods, abi.PodLabels|abi.PodAnnotations|abi.Time))
	if err != nil {
		t.Fatal(err)
	}
	got, err := abi.ReadReadiness(b, len(pods))
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		got[i].Message = ""
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Check (-want +got):\n%s", diff)
	}
}

func TestSettingsAreRefused(t *testing.T) {
	for _, config := range []string{`{"seconds":-1}`, `{"seconds":"5"}`, `{"second":5}`, `[]`} {
		if _, err := guest.Open([]byte(`{"policy":"MinReadySeconds","config":` + config + `}`)); err == nil {
			t.Errorf("Open took %s", config)
		}
	}
}
