package pod

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// RecursiveReadOnly says whether what is mounted below a volume is read-only too,
// by the kubelet's rules; able says whether the runtime of pods without a
// RuntimeClass can do it. Of other runtimes it is not known.
func RecursiveReadOnly(p *v1.Pod, m *v1.VolumeMount, able bool) (bool, error) {
	if m.RecursiveReadOnly == nil || *m.RecursiveReadOnly == v1.RecursiveReadOnlyDisabled {
		return false, nil
	}
	const asked = "volume %q requested recursive read-only mode, but it is "
	if !m.ReadOnly {
		return false, fmt.Errorf(asked+"not read-only", m.Name)
	}
	if m.MountPropagation != nil && *m.MountPropagation != v1.MountPropagationNone {
		return false, fmt.Errorf(asked+"not compatible with propagation %q", m.Name, *m.MountPropagation)
	}
	if class := p.Spec.RuntimeClassName; class != nil && *class != "" {
		able = false
	}
	switch mode := *m.RecursiveReadOnly; mode {
	case v1.RecursiveReadOnlyIfPossible:
		return able, nil
	case v1.RecursiveReadOnlyEnabled:
		if !able {
			return false, fmt.Errorf(asked+"not supported by the runtime", m.Name)
		}
		return true, nil
	default:
		return false, fmt.Errorf("unknown recursive read-only mode %q", mode)
	}
}

// volumeMounts tells of a container's volumes how they are mounted.
func (r *Record) volumeMounts(c Spec, h Host) []v1.VolumeMountStatus {
	var out []v1.VolumeMountStatus
	for i := range c.VolumeMounts {
		m := &c.VolumeMounts[i]
		st := v1.VolumeMountStatus{Name: m.Name, MountPath: m.MountPath, ReadOnly: m.ReadOnly}
		if m.ReadOnly {
			mode := v1.RecursiveReadOnlyDisabled
			if is, err := RecursiveReadOnly(r.Pod, m, h.RecursiveReadOnly); err == nil && is {
				mode = v1.RecursiveReadOnlyEnabled
			}
			st.RecursiveReadOnly = &mode
		}
		out = append(out, st)
	}
	return out
}
