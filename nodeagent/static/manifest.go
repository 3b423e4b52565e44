package static

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"sigs.k8s.io/yaml"
)

// Annotations of Kubernetes' that tell static pods and their mirrors.
const (
	hashAnnotation   = "kubernetes.io/config.hash"
	sourceAnnotation = "kubernetes.io/config.source"
	fileSource       = "file"
	apiSource        = "api"
)

// Is says whether a pod is a static one.
func Is(p *v1.Pod) bool {
	return p.Annotations[sourceAnnotation] == fileSource && !isMirror(p)
}

// FromAPI is a pod that the API gave: no static one, whatever it says of itself.
func FromAPI(p *v1.Pod) *v1.Pod {
	if !Is(p) {
		return p
	}
	p = p.DeepCopy()
	p.Annotations[sourceAnnotation] = apiSource
	return p
}

func isMirror(p *v1.Pod) bool {
	_, mirror := p.Annotations[v1.MirrorPodAnnotationKey]
	return mirror
}

// Parse reads a manifest, in YAML or JSON, as the pod that a node is to run.
//
// # Errors
// What is no Pod of v1, what Kubernetes' validation refuses, and pods that refer to
// objects of the API.
func Parse(data []byte, node string) (*v1.Pod, error) {
	p := &v1.Pod{}
	if err := yaml.UnmarshalStrict(data, p); err != nil {
		return nil, err
	}
	if p.APIVersion != "v1" || p.Kind != "Pod" {
		return nil, fmt.Errorf("it is %s of %s: a manifest here is one Pod of v1", orNothing(p.Kind), orNothing(p.APIVersion))
	}
	if what := refersTo(p); what != "" {
		return nil, fmt.Errorf("it names %s: a static pod refers to no other object of the API", what)
	}
	own(p, node)
	corev1.SetObjectDefaults_Pod(p)
	return p, validate(p)
}

func orNothing(s string) string {
	if s == "" {
		return "nothing"
	}
	return s
}

// own makes it a pod of the node: bound to it, named after it, kept there whatever its
// taints, and with a UID that follows from what stands in the manifest.
func own(p *v1.Pod, node string) {
	if p.Namespace == "" {
		p.Namespace = v1.NamespaceDefault
	}
	p.Name += "-" + node
	p.Spec.NodeName = node
	p.Spec.Tolerations = append(p.Spec.Tolerations, v1.Toleration{Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute})
	p.Status = v1.PodStatus{}
	uid := uidOf(p)
	p.UID = types.UID(uid)
	if p.Annotations == nil {
		p.Annotations = map[string]string{}
	}
	delete(p.Annotations, v1.MirrorPodAnnotationKey)
	p.Annotations[hashAnnotation], p.Annotations[sourceAnnotation] = uid, fileSource
}

func uidOf(p *v1.Pod) string {
	text, err := json.Marshal(p)
	if err != nil {
		text = []byte(p.Namespace + "/" + p.Name) // a Pod that was read can be written
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

func validate(p *v1.Pod) error {
	in := &core.Pod{}
	if err := corev1.Convert_v1_Pod_To_core_Pod(p, in, nil); err != nil {
		return err
	}
	return validation.ValidatePodCreate(in, validation.PodValidationOptions{AllowInvalidPodDeletionCost: true}).ToAggregate()
}

// refersTo names a kind of object that the pod refers to, empty if none.
func refersTo(p *v1.Pod) (found string) {
	note := func(kind string) pod.Visitor {
		return func(string) bool {
			found = kind
			return false
		}
	}
	pod.VisitPodSecretNames(p, note("a Secret"))
	pod.VisitPodConfigmapNames(p, note("a ConfigMap"))
	if p.Spec.ServiceAccountName != "" {
		found = "a ServiceAccount"
	}
	for i := range p.Spec.Volumes {
		if v := &p.Spec.Volumes[i]; v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
			found = "a PersistentVolumeClaim"
		}
		if v := p.Spec.Volumes[i].Projected; v != nil && slices.ContainsFunc(v.Sources, func(s v1.VolumeProjection) bool { return s.ServiceAccountToken != nil || s.ClusterTrustBundle != nil }) {
			found = "a token or a trust bundle"
		}
	}
	if len(p.Spec.ResourceClaims) > 0 {
		found = "a ResourceClaim"
	}
	return found
}

// mirrorOf is what the API is shown of a static pod.
func mirrorOf(p *v1.Pod, node *v1.Node) (*v1.Pod, error) {
	if node == nil || node.UID == "" {
		return nil, errors.New("the API does not know this node yet")
	}
	m := p.DeepCopy()
	m.UID, m.ResourceVersion = "", ""
	m.Annotations[v1.MirrorPodAnnotationKey] = string(p.UID)
	controller := true
	m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID, Controller: &controller}}
	return m, nil
}
