package kind

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/kubernetes/pkg/apis/core"
)

// Nothing gives hints by these annotations.
func TestServicesAreWarnedOfAnnotationsWithoutEffect(t *testing.T) {
	t.Parallel()
	const mode, hints = "service.kubernetes.io/topology-mode", "service.kubernetes.io/topology-aware-hints"
	const noEffect = " has no effect here: use spec.trafficDistribution"
	tests := map[string]struct {
		annotations map[string]string
		want        []string
	}{
		"none":         {},
		"the mode":     {map[string]string{mode: "Auto"}, []string{"annotation " + mode + noEffect}},
		"the mode off": {annotations: map[string]string{mode: "Disabled"}},
		"the older one": {map[string]string{hints: "auto"}, []string{
			"annotation " + hints + " is deprecated, please use " + mode + " instead", "annotation " + hints + noEffect,
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &core.Service{}
			s.Annotations = test.annotations
			k := MustStored("services")
			if diff := cmp.Diff(test.want, k.Strategy.WarningsOnCreate(t.Context(), s)); diff != "" {
				t.Errorf("when it is created (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.want, k.Strategy.WarningsOnUpdate(t.Context(), s, &core.Service{})); diff != "" {
				t.Errorf("when it is changed (-want +got):\n%s", diff)
			}
		})
	}
}
