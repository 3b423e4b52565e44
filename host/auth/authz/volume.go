package authz

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
)

// claimsOf are the claims that a pod mounts. An ephemeral volume's claim is
// named after the pod and the volume.
func claimsOf(pod *corev1.Pod) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range pod.Spec.Volumes {
			volume := &pod.Spec.Volumes[i]
			name := ""
			switch {
			case volume.PersistentVolumeClaim != nil:
				name = volume.PersistentVolumeClaim.ClaimName
			case volume.Ephemeral != nil:
				name = pod.Name + "-" + volume.Name
			}
			if name != "" && !yield(name) {
				return
			}
		}
	}
}

// volumeSecret tells whether mounting the volume on a node needs the secret.
func volumeSecret(pv *corev1.PersistentVolume, namespace, name string) bool {
	for _, ref := range volumeSecrets(pv) {
		if ref.Namespace == "" && pv.Spec.ClaimRef != nil {
			ref.Namespace = pv.Spec.ClaimRef.Namespace
		}
		if ref.Namespace == namespace && ref.Name == name {
			return true
		}
	}
	return false
}

func volumeSecrets(pv *corev1.PersistentVolume) []corev1.SecretReference {
	var refs []corev1.SecretReference
	add := func(ref *corev1.SecretReference) {
		if ref != nil {
			refs = append(refs, *ref)
		}
	}
	source := &pv.Spec.PersistentVolumeSource
	if source.CSI != nil {
		add(source.CSI.NodeStageSecretRef)
		add(source.CSI.NodePublishSecretRef)
		add(source.CSI.NodeExpandSecretRef)
	}
	if source.ISCSI != nil {
		add(source.ISCSI.SecretRef)
	}
	if source.CephFS != nil {
		add(source.CephFS.SecretRef)
	}
	if source.RBD != nil {
		add(source.RBD.SecretRef)
	}
	if source.FlexVolume != nil {
		add(source.FlexVolume.SecretRef)
	}
	if source.AzureFile != nil {
		ref := corev1.SecretReference{Name: source.AzureFile.SecretName}
		if source.AzureFile.SecretNamespace != nil {
			ref.Namespace = *source.AzureFile.SecretNamespace
		}
		add(&ref)
	}
	return refs
}
