package invent_test

import (
	"encoding/json"
	"testing"

	"github.com/berth-dev/berth/host/schedule/oracletest/invent"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	"k8s.io/kubernetes/pkg/apis/core/validation"
)

func TestASeedAlwaysGivesTheSameCase(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		a, err := json.Marshal(invent.Case(seed))
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(invent.Case(seed))
		if err != nil || string(a) != string(b) {
			t.Errorf("seed %d gave two cases: %v", seed, err)
		}
	}
}

// What is made up must be what an API server would let in, or a difference
// would mean nothing.
func TestPodsAreValid(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		for _, pod := range invent.Case(seed).Asked() {
			valid(t, seed, pod)
		}
	}
}

func valid(t *testing.T, seed uint64, pod *v1.Pod) {
	t.Helper()
	defaulted := pod.DeepCopy()
	legacyscheme.Scheme.Default(defaulted)
	var internal core.Pod
	if err := legacyscheme.Scheme.Convert(defaulted, &internal, runtime.InternalGroupVersioner); err != nil {
		t.Fatal(err)
	}
	o := validation.PodValidationOptions{AllowInvalidTopologySpreadConstraintLabelSelector: false, PodLevelResourcesEnabled: true, AllowNamespacedSysctlsForHostNetAndHostIPC: true}
	if errs := validation.ValidatePodCreate(&internal, o); len(errs) > 0 {
		t.Errorf("seed %d, %s: %v", seed, pod.Name, errs.ToAggregate())
	}
}
