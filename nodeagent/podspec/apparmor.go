package podspec

import (
	"fmt"
	"iter"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/nodeagent/runtime"
)

// Containers walks all containers of a pod, of whatever kind.
func Containers(p *v1.Pod) iter.Seq[*v1.Container] {
	return func(yield func(*v1.Container) bool) {
		for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
			for i := range list {
				if !yield(&list[i]) {
					return
				}
			}
		}
		for i := range p.Spec.EphemeralContainers {
			c := v1.Container(p.Spec.EphemeralContainers[i].EphemeralContainerCommon)
			if !yield(&c) {
				return
			}
		}
	}
}

// AppArmorProfile is what a container asks for, or its pod; nil if neither says.
func AppArmorProfile(p *v1.Pod, c *v1.Container) *v1.AppArmorProfile {
	if c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil {
		return c.SecurityContext.AppArmorProfile
	}
	if p.Spec.SecurityContext != nil && p.Spec.SecurityContext.AppArmorProfile != nil {
		return p.Spec.SecurityContext.AppArmorProfile
	}
	return nil
}

// appArmor translates a profile. Who says nothing gets the runtime's own, unless
// privileged, as from other runtimes.
func appArmor(profile *v1.AppArmorProfile, privileged bool) (runtime.AppArmor, error) {
	switch {
	case profile == nil && privileged:
		return runtime.AppArmor{Type: runtime.AppArmorUnconfined}, nil
	case profile == nil:
		return runtime.AppArmor{}, nil
	case profile.Type == v1.AppArmorProfileTypeUnconfined:
		return runtime.AppArmor{Type: runtime.AppArmorUnconfined}, nil
	case profile.Type == v1.AppArmorProfileTypeRuntimeDefault:
		return runtime.AppArmor{Type: runtime.AppArmorRuntimeDefault}, nil
	case profile.LocalhostProfile == nil || strings.TrimSpace(*profile.LocalhostProfile) == "":
		return runtime.AppArmor{}, fmt.Errorf("appArmorProfile: localhostProfile is empty")
	}
	return runtime.AppArmor{Type: runtime.AppArmorLocalhost, Profile: *profile.LocalhostProfile}, nil
}
