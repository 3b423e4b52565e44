package main

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

func TestAPushSaysWhatItChanges(t *testing.T) {
	t.Parallel()
	config := func(json string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(json)} }
	long := func(end string) *runtime.RawExtension {
		return config(`{"a":"` + strings.Repeat("x", 200) + end + `"}`)
	}
	for _, tt := range []struct {
		name    string
		was, is v1alpha1.PolicySpec
		want    string
	}{
		{"nothing", v1alpha1.PolicySpec{Module: "sha256-a", Config: config(`{"a":1, "b":2}`)}, v1alpha1.PolicySpec{Module: "sha256:a", Config: config(`{"b":2,"a":1}`)}, "changed: nothing"},
		{"a module", v1alpha1.PolicySpec{Module: "sha256-abc"}, v1alpha1.PolicySpec{Module: "sha256-def"}, "changed: module abc → def"},
		{
			"settings", v1alpha1.PolicySpec{Config: config(`{"a":1}`)},
			v1alpha1.PolicySpec{Mode: "Shadow", FailureMode: "Open", Limits: &v1alpha1.PolicyLimits{MemoryBytes: 5}},
			`changed: config {"a":1} → none, mode none → Shadow, failureMode none → Open, limits none → {"memoryBytes":5}`,
		},
		{"a canary", v1alpha1.PolicySpec{}, v1alpha1.PolicySpec{Canary: &v1alpha1.Canary{Module: "m", Share: 10}}, "changed: canary none → m for 10 %"},
		{"the end of a long one", v1alpha1.PolicySpec{Config: long("y")}, v1alpha1.PolicySpec{Config: long("z")}, "xxx… → "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := changes(&tt.was, &tt.is); !strings.Contains(got, tt.want) {
				t.Errorf("changes = %s, want %s", got, tt.want)
			}
		})
	}
}
