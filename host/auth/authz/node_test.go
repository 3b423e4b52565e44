package authz

import (
	"testing"

	"github.com/berth-dev/berth/host/auth/view"
	"github.com/berth-dev/berth/host/auth/view/viewtest"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// nodeCluster has a pod on n1 that refers to one of everything.
func nodeCluster() *viewtest.Memory {
	objects := &viewtest.Memory{}
	meta := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "u"}
	}
	objects.Put(view.Pods, &corev1.Pod{ObjectMeta: meta("dev", "mine"), Spec: corev1.PodSpec{
		NodeName: "n1", ServiceAccountName: "web",
		ImagePullSecrets: []corev1.LocalObjectReference{{Name: "pull"}},
		Containers: []corev1.Container{{Name: "c", EnvFrom: []corev1.EnvFromSource{
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "env"}}},
		}}},
		Volumes: []corev1.Volume{
			{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "mounted"}}},
			{Name: "c", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "config"}}}},
			{Name: "p", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"}}},
			{Name: "e", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
		},
	}})
	objects.Put(view.Pods, &corev1.Pod{ObjectMeta: meta("dev", "theirs"), Spec: corev1.PodSpec{
		NodeName: "n2", ServiceAccountName: "db",
		Volumes: []corev1.Volume{{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "other"}}}},
	}})
	objects.Put(view.Pods, &corev1.Pod{ObjectMeta: meta("dev", "pending")})
	objects.Put(view.Claims, &corev1.PersistentVolumeClaim{ObjectMeta: meta("dev", "claim"), Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv1"}})
	objects.Put(view.Claims, &corev1.PersistentVolumeClaim{ObjectMeta: meta("dev", "mine-e"), Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv2"}})
	objects.Put(view.Volumes, &corev1.PersistentVolume{ObjectMeta: meta("", "pv1"), Spec: corev1.PersistentVolumeSpec{
		ClaimRef: &corev1.ObjectReference{Namespace: "dev", Name: "claim", UID: "u"},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
			NodePublishSecretRef: &corev1.SecretReference{Namespace: "storage", Name: "publish"}}},
	}})
	// A claim may name a volume that is somebody else's.
	objects.Put(view.Volumes, &corev1.PersistentVolume{ObjectMeta: meta("", "pv2"), Spec: corev1.PersistentVolumeSpec{
		ClaimRef: &corev1.ObjectReference{Namespace: "prod", Name: "claim", UID: "x"}}})
	objects.Put(view.Attachments, &storagev1.VolumeAttachment{ObjectMeta: meta("", "va1"), Spec: storagev1.VolumeAttachmentSpec{NodeName: "n1"}})
	objects.Put(view.Attachments, &storagev1.VolumeAttachment{ObjectMeta: meta("", "va2"), Spec: storagev1.VolumeAttachmentSpec{NodeName: "n2"}})
	return objects
}

func TestANodeIsConfined(t *testing.T) {
	t.Parallel()
	objects := nodeCluster()
	a := New(objects, placed{objects})
	n1 := who("system:node:n1", "system:nodes")
	tests := map[string]bool{
		"get secrets dev/mounted":                              true,
		"watch secrets dev/mounted":                            true,
		"get secrets dev/env":                                  true,
		"get secrets dev/pull":                                 true,
		"get secrets storage/publish":                          true,
		"get secrets dev/other":                                false,
		"get secrets prod/mounted":                             false,
		"list secrets":                                         false,
		"list secrets dev/":                                    false,
		"update secrets dev/mounted":                           false,
		"get configmaps dev/config":                            true,
		"get configmaps dev/mounted":                           false,
		"get persistentvolumeclaims dev/claim":                 true,
		"get persistentvolumeclaims dev/mine-e":                true,
		"list persistentvolumeclaims dev/claim":                false,
		"patch persistentvolumeclaims/status dev/claim":        true,
		"patch persistentvolumeclaims dev/claim":               false,
		"get persistentvolumes /pv1":                           true,
		"get persistentvolumes /pv2":                           false,
		"get volumeattachments.storage.k8s.io /va1":            true,
		"get volumeattachments.storage.k8s.io /va2":            false,
		"create serviceaccounts/token dev/web":                 true,
		"create serviceaccounts/token dev/db":                  false,
		"create serviceaccounts/token dev/default":             false,
		"get serviceaccounts dev/web":                          true,
		"update serviceaccounts dev/web":                       false,
		"get pods dev/mine":                                    true,
		"get pods dev/theirs":                                  false,
		"get pods dev/pending":                                 false,
		"get pods dev/none":                                    false,
		"list pods":                                            false,
		"list pods / spec.nodeName=n1":                         true,
		"watch pods / spec.nodeName=n1":                        true,
		"watch pods / spec.nodeName=n2":                        false,
		"watch pods / spec.nodeName!=n1":                       false,
		"watch pods / status.phase=Running":                    false,
		"patch pods/status dev/mine":                           true,
		"update pods dev/mine":                                 false,
		"create pods/binding dev/mine":                         false,
		"create pods/exec dev/mine":                            false,
		"create pods/eviction dev/mine":                        true,
		"delete pods dev/mine":                                 true,
		"get nodes /n1":                                        true,
		"list nodes":                                           true,
		"patch nodes/status /n1":                               true,
		"delete nodes /n1":                                     false,
		"get nodes/proxy /n2":                                  false,
		"get leases.coordination.k8s.io kube-node-lease/n1":    true,
		"update leases.coordination.k8s.io kube-node-lease/n1": true,
		"update leases.coordination.k8s.io kube-node-lease/n2": false,
		"update leases.coordination.k8s.io kube-system/n1":     false,
		"list leases.coordination.k8s.io kube-node-lease/":     false,
		"create leases.coordination.k8s.io kube-node-lease/":   true,
		"update csinodes.storage.k8s.io /n1":                   true,
		"update csinodes.storage.k8s.io /n2":                   false,
		"list services":                                        true,
		"watch endpointslices.discovery.k8s.io":                true,
		"watch networkpolicies.networking.k8s.io":              true,
		"update networkpolicies.networking.k8s.io dev/x":       false,
		"list namespaces":                                      true,
		"update services dev/x":                                false,
		"create events dev/":                                   true,
		"create clusterrolebindings.rbac.authorization.k8s.io": false,
		"get /metrics":                                         false,
		"get /berth/v1/peers":                                  true,
		"get /berth/v1/backup":                                 false,
	}
	for text, want := range tests {
		check(t, a, n1, text, want)
	}
}

func TestOnlyMachinesAreMachines(t *testing.T) {
	t.Parallel()
	objects := nodeCluster()
	a := New(objects, placed{objects})
	for _, by := range []struct{ name, group string }{
		{"system:node:n1", "system:authenticated"}, // not of the group
		{"system:node:", "system:nodes"},           // names no machine
		{"n1", "system:nodes"},
		{"system:node:n1x", "system:nodes"},
		{"system:node:n2", "system:nodes"},
	} {
		check(t, a, who(by.name, by.group), "get secrets dev/mounted", false)
	}
}

func TestAPodThatMovesTakesItsSecretsAlong(t *testing.T) {
	t.Parallel()
	objects := nodeCluster()
	a := New(objects, placed{objects})
	objects.Drop(view.Pods, "dev", "mine")
	check(t, a, who("system:node:n1", "system:nodes"), "get secrets dev/mounted", false)
	check(t, a, who("system:node:n1", "system:nodes"), "get persistentvolumes /pv1", false)
}
