package kind

import (
	"encoding/binary"
	"strings"
	"sync"

	"github.com/berth-dev/berth/host/store"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
)

// Replicas remembers what decoding, preparation and validation made of pods.
// All of them look at a pod's spec, labels and annotations, and otherwise at its
// metadata alone: a replica of a pod that passed needs but its metadata read
// and checked, which is a fiftieth of the work. Replicas then share the memory
// of one spec.
//
// What is refused or warned of is never remembered, nor what hangs on the
// pod's name or on the time.
type Replicas struct {
	read memory[*corev1.PodSpec]
	made memory[*outcome]
}

// outcome is what was made of a pod. It is shared and never changed.
type outcome struct {
	labels, annotations map[string]string
	spec                corev1.PodSpec
	status              corev1.PodStatus
}

func newReplicas() *Replicas {
	return &Replicas{read: newMemory[*corev1.PodSpec](), made: newMemory[*outcome]()}
}

// Unmarshal reads a pod's message by decode, or that part of it which differs
// from a pod that was read before. Specs have their defaults already where they
// were read before.
func (r *Replicas) Unmarshal(raw []byte, pod *corev1.Pod, decode func(raw []byte) error) error {
	spec, rest := cutSpec(raw)
	if r == nil || len(spec) == 0 || len(spec) > longestLike {
		return decode(raw)
	}
	if known, ok := r.read.find(spec); ok {
		if err := decode(rest); err != nil {
			return err
		}
		known.DeepCopyInto(&pod.Spec)
		return nil
	}
	if err := decode(raw); err != nil {
		return err
	}
	if r.read.again(spec) {
		whole := &corev1.Pod{Spec: *pod.Spec.DeepCopy()}
		Scheme.Default(whole)
		r.read.keep(spec, &whole.Spec)
	}
	return nil
}

// cutSpec takes the spec out of a pod's message, where it comes as Kubernetes'
// encoder writes it: the metadata, the spec once, and a status that needs no
// memory worth the name.
func cutSpec(raw []byte) (spec, rest []byte) {
	const metadata, body, status = 1<<3 | 2, 2<<3 | 2, 3<<3 | 2
	head, afterHead := cutField(raw, metadata)
	spec, afterSpec := cutField(afterHead, body)
	tail, left := cutField(afterSpec, status)
	if head == nil || spec == nil || len(left) > 0 || len(tail) > longestLike || len(afterSpec) > 0 && tail == nil {
		return nil, nil
	}
	rest = make([]byte, 0, len(raw)-len(spec))
	rest = append(rest, raw[:len(raw)-len(afterHead)]...)
	return spec, append(rest, afterSpec...)
}

// cutField takes the first field off a message if it has that tag; nil if not.
func cutField(raw []byte, tag byte) (value, rest []byte) {
	if len(raw) < 2 || raw[0] != tag {
		return nil, raw
	}
	size, n := binary.Uvarint(raw[1:])
	if n <= 0 || size > uint64(len(raw)-1-n) {
		return nil, raw
	}
	end := 1 + n + int(size)
	return raw[1+n : end : end], raw[end:]
}

// Like is what a pod has in common with its replicas.
type Like struct{ data []byte }

var likes = sync.Pool{New: func() any { return new(Like) }}

// Done gives the memory back.
func (l *Like) Done() {
	if l != nil {
		likes.Put(l)
	}
}

// Like reads it, before the pod is prepared. Nil for what is not remembered.
func (r *Replicas) Like(obj store.Object) *Like {
	pod, ok := obj.(*corev1.Pod)
	if r == nil || !ok || len(pod.Spec.SchedulingGates) > 0 || namesClaims(pod) {
		return nil
	}
	common := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels, Annotations: pod.Annotations}, Spec: pod.Spec}
	size := common.Size()
	if size > longestLike {
		return nil
	}
	like := likes.Get().(*Like)
	if cap(like.data) < size {
		like.data = make([]byte, size)
	}
	like.data = like.data[:size]
	if _, err := common.MarshalToSizedBuffer(like.data); err != nil {
		like.Done()
		return nil
	}
	return like
}

// namesClaims tells whether names of claims are made of the pod's.
func namesClaims(pod *corev1.Pod) bool {
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Ephemeral != nil {
			return true
		}
	}
	return false
}

// Recall makes of a pod, in place, what was made of a replica of it. Nil if
// there was none, or if something about the metadata is to be said.
func (r *Replicas) Recall(like *Like, obj store.Object) store.Object {
	if r == nil || like == nil {
		return nil
	}
	known, ok := r.made.find(like.data)
	if !ok {
		return nil
	}
	pod := obj.(*corev1.Pod)
	if pod.UID == "" || !plainMetadata(&pod.ObjectMeta) {
		return nil
	}
	pod.TypeMeta = metav1.TypeMeta{}
	pod.Labels, pod.Annotations = known.labels, known.annotations
	pod.Spec, pod.Status = known.spec, known.status
	pod.Generation = 1
	return pod
}

// Keep remembers what was made of a pod, from the second replica on.
func (r *Replicas) Keep(like *Like, made store.Object) {
	if r == nil || like == nil || !r.made.again(like.data) {
		return
	}
	// A copy: whoever made it may have to try again, beginning with its parts.
	pod := made.(*corev1.Pod).DeepCopy()
	r.made.keep(like.data, &outcome{pod.Labels, pod.Annotations, pod.Spec, pod.Status})
}

// plainMetadata tells that there is nothing to refuse in it, nor to warn of.
// Labels and annotations were looked at when they were first seen.
func plainMetadata(meta *metav1.ObjectMeta) bool {
	if !plainName(meta.Name) || !plainName(strings.TrimSuffix(meta.GenerateName, "-")) && meta.GenerateName != "" {
		return false
	}
	if len(meta.OwnerReferences) == 0 && len(meta.Finalizers) == 0 && len(meta.ManagedFields) == 0 && meta.Generation >= 0 {
		return true
	}
	return len(corevalidation.ValidateObjectMeta(meta, true, corevalidation.ValidatePodName, field.NewPath("metadata"))) == 0
}

// plainName is a DNS label, which is always a good name. It spares two regular
// expressions.
func plainName(name string) bool {
	if name == "" || len(name) > validation.DNS1123LabelMaxLength || name[0] == '-' || name[len(name)-1] == '-' {
		return false
	}
	for i := range len(name) {
		if c := name[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}
