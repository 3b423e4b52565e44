package admission

import (
	"context"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/auth/serviceaccount"
	"github.com/berth-dev/berth/host/auth/view"

	corev1 "k8s.io/api/core/v1"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/utils/ptr"
)

// Where a container finds its token, and what the volume is called.
const (
	tokenMountPath    = "/var/run/secrets/kubernetes.io/serviceaccount"
	tokenVolumePrefix = "kube-api-access-"
	// tokenLife is Kubernetes' own odd number; the node agent renews the token
	// long before.
	tokenLife                int64 = 3607
	enforceMountableSecrets        = "kubernetes.io/enforce-mountable-secrets"
	serviceAccountNotFoundIn       = "error looking up service account %s/%s: %w"
)

// serviceAccounts gives pods their account and its token.
type serviceAccounts struct{ objects view.Objects }

func isMirror(pod *corev1.Pod) bool {
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return mirror
}

func (s serviceAccounts) admit(ctx context.Context, a *registry.Attributes) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok || !whole(a, registry.Create) || isMirror(pod) {
		return nil
	}
	if pod.Spec.ServiceAccountName == "" {
		pod.Spec.ServiceAccountName = serviceaccount.DefaultAccount
	}
	pod.Spec.DeprecatedServiceAccount = pod.Spec.ServiceAccountName
	sa, err := s.account(ctx, a, pod)
	if err != nil {
		return err
	}
	if automount(sa, pod) {
		mountToken(pod, tokenVolumeName(a.Namespace, sa.Name))
	}
	if len(pod.Spec.ImagePullSecrets) == 0 && len(sa.ImagePullSecrets) > 0 {
		pod.Spec.ImagePullSecrets = append([]corev1.LocalObjectReference(nil), sa.ImagePullSecrets...)
	}
	return nil
}

func (s serviceAccounts) account(ctx context.Context, a *registry.Attributes, pod *corev1.Pod) (*corev1.ServiceAccount, error) {
	name := pod.Spec.ServiceAccountName
	sa, err := view.Get[*corev1.ServiceAccount](ctx, s.objects, view.ServiceAccounts, a.Namespace, name)
	if view.Missing(err) {
		return nil, forbid(a, "error looking up service account %s/%s: serviceaccount %q not found", a.Namespace, name, name)
	}
	if err != nil {
		return nil, forbid(a, serviceAccountNotFoundIn, a.Namespace, name, err)
	}
	return sa, nil
}

func automount(sa *corev1.ServiceAccount, pod *corev1.Pod) bool {
	if pod.Spec.AutomountServiceAccountToken != nil {
		return *pod.Spec.AutomountServiceAccountToken
	}
	return sa.AutomountServiceAccountToken == nil || *sa.AutomountServiceAccountToken
}

// tokenVolumeName is what the volume is called. Kubernetes draws the five
// letters for each pod; here they hang on the account, so that replicas have
// equal specs.
func tokenVolumeName(namespace, account string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(namespace + "/" + account)) // it never fails
	return tokenVolumePrefix + utilrand.SafeEncodeString(fmt.Sprintf("%05d", h.Sum32()%100_000))
}

// mountToken adds the token's volume to each container that has nothing else at
// its place.
func mountToken(pod *corev1.Pod, name string) {
	exists := false
	for i := range pod.Spec.Volumes {
		if strings.HasPrefix(pod.Spec.Volumes[i].Name, tokenVolumePrefix) {
			name, exists = pod.Spec.Volumes[i].Name, true
			break
		}
	}
	needed := false
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			needed = mountTokenIn(&containers[i], name) || needed
		}
	}
	if needed && !exists {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
			Name: name, VolumeSource: corev1.VolumeSource{Projected: tokenVolume()},
		})
	}
}

func mountTokenIn(container *corev1.Container, volume string) bool {
	for i := range container.VolumeMounts {
		if container.VolumeMounts[i].MountPath == tokenMountPath {
			return false
		}
	}
	container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{
		Name: volume, ReadOnly: true, MountPath: tokenMountPath,
	})
	return true
}

// tokenVolume is the token, the cluster's certificate and the namespace.
func tokenVolume() *corev1.ProjectedVolumeSource {
	return &corev1.ProjectedVolumeSource{
		DefaultMode: ptr.To(corev1.ProjectedVolumeSourceDefaultMode),
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: ptr.To(tokenLife)}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: serviceaccount.RootConfigMap},
				Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
			}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{
				Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"},
			}}}},
		},
	}
}

// validate refuses what a mirror pod may not have, and secrets that an account
// with the annotation does not list.
func (s serviceAccounts) validate(ctx context.Context, a *registry.Attributes) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok {
		return nil
	}
	ephemeral := a.Subresource == "ephemeralcontainers" && a.Operation == registry.Update
	if !ephemeral && !whole(a, registry.Create) {
		return nil
	}
	if isMirror(pod) {
		return validateMirror(a, pod)
	}
	sa, err := s.account(ctx, a, pod)
	if err != nil {
		return err
	}
	if enforce, _ := strconv.ParseBool(sa.Annotations[enforceMountableSecrets]); enforce {
		return onlyListedSecrets(a, sa, pod)
	}
	return nil
}

func validateMirror(a *registry.Attributes, pod *corev1.Pod) error {
	if pod.Spec.ServiceAccountName != "" {
		return forbid(a, "a mirror pod may not reference service accounts")
	}
	secrets := false
	podutil.VisitPodSecretNames(pod, func(string) bool {
		secrets = true
		return false
	})
	if secrets {
		return forbid(a, "a mirror pod may not reference secrets")
	}
	for i := range pod.Spec.Volumes {
		projected := pod.Spec.Volumes[i].Projected
		if projected == nil {
			continue
		}
		for _, source := range projected.Sources {
			if source.ServiceAccountToken != nil {
				return forbid(a, "a mirror pod may not use ServiceAccountToken volume projections")
			}
		}
	}
	return nil
}

func onlyListedSecrets(a *registry.Attributes, sa *corev1.ServiceAccount, pod *corev1.Pod) error {
	listed := map[string]bool{}
	for _, secret := range sa.Secrets {
		listed[secret.Name] = true
	}
	for _, secret := range sa.ImagePullSecrets {
		listed[secret.Name] = true
	}
	refused := ""
	podutil.VisitPodSecretNames(pod, func(name string) bool {
		if !listed[name] && refused == "" {
			refused = name
		}
		return refused == ""
	})
	if refused != "" {
		return forbid(a, "the secret %q is not allowed because service account %s does not reference that secret", refused, sa.Name)
	}
	return nil
}
