package admit

import (
	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/nodeagent/pod"
	"github.com/berth-dev/berth/nodeagent/podspec"
)

// lack is why a pod cannot run on a machine like this, in the kubelet's words.
func (f Features) lack(node *v1.Node, p *v1.Pod) *pod.Verdict {
	if want, ok := p.Spec.NodeSelector[v1.LabelOSStable]; ok && want != node.Labels[v1.LabelOSStable] {
		return &pod.Verdict{Reason: "PodOSSelectorNodeLabelDoesNotMatch", Message: "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"}
	}
	if p.Spec.OS != nil && string(p.Spec.OS.Name) != f.OS {
		return &pod.Verdict{Reason: "PodOSNotSupported", Message: "Failed to admit pod as the OS field doesn't match node OS"}
	}
	if !f.AppArmor && wantsAppArmor(p) {
		return &pod.Verdict{Reason: "AppArmor", Message: "Cannot enforce AppArmor: AppArmor is not enabled on the host"}
	}
	return nil
}

// wantsAppArmor says whether a container is to be confined.
func wantsAppArmor(p *v1.Pod) bool {
	for c := range podspec.Containers(p) {
		if profile := podspec.AppArmorProfile(p, c); profile != nil && profile.Type != v1.AppArmorProfileTypeUnconfined {
			return true
		}
	}
	return false
}
