package pod

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

func TestMountsAreReadOnlyRecursivelyWhereTheRuntimeIsAble(t *testing.T) {
	t.Parallel()
	const enabled, ifPossible, disabled = v1.RecursiveReadOnlyEnabled, v1.RecursiveReadOnlyIfPossible, v1.RecursiveReadOnlyDisabled
	class, none, both := "kata", v1.MountPropagationNone, v1.MountPropagationBidirectional
	for name, test := range map[string]struct {
		mode        v1.RecursiveReadOnlyMode // "" is not said
		writable    bool
		propagation *v1.MountPropagationMode
		class       *string
		able        bool
		want        bool
		err         string
	}{
		"not said":                     {able: true},
		"disabled":                     {mode: disabled, able: true},
		"enabled":                      {mode: enabled, able: true, want: true},
		"enabled, without propagation": {mode: enabled, propagation: &none, able: true, want: true},
		"if possible, and it is":       {mode: ifPossible, able: true, want: true},
		"if possible, and it is not":   {mode: ifPossible},
		"enabled in vain":              {mode: enabled, err: "it is not supported by the runtime"},
		"enabled, by another runtime":  {mode: enabled, class: &class, able: true, err: "it is not supported by the runtime"},
		"if possible, by another":      {mode: ifPossible, class: &class, able: true},
		"writable":                     {mode: ifPossible, writable: true, able: true, err: "it is not read-only"},
		"propagated":                   {mode: ifPossible, propagation: &both, able: true, err: `it is not compatible with propagation "Bidirectional"`},
		"a mode of another time":       {mode: "Perhaps", able: true, err: `unknown recursive read-only mode "Perhaps"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := v1.VolumeMount{Name: "v", MountPath: "/v", ReadOnly: !test.writable, MountPropagation: test.propagation}
			if test.mode != "" {
				m.RecursiveReadOnly = &test.mode
			}
			p := &v1.Pod{Spec: v1.PodSpec{RuntimeClassName: test.class, Containers: []v1.Container{{Name: "c", VolumeMounts: []v1.VolumeMount{m}}}}}
			got, err := RecursiveReadOnly(p, &m, test.able)
			if got != test.want || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("RecursiveReadOnly = %v, %v, want %v, %q", got, err, test.want, test.err)
			}
			told := New(p, time.Unix(0, 0)).Status(Host{RecursiveReadOnly: test.able}, time.Unix(0, 0)).ContainerStatuses[0].VolumeMounts[0].RecursiveReadOnly
			switch {
			case test.writable && told != nil:
				t.Errorf("the status says %q of a writable mount", *told)
			case !test.writable && (told == nil || (*told == enabled) != test.want):
				t.Errorf("the status says %v, want enabled: %v", told, test.want)
			}
		})
	}
}
