package kind

import (
	"hash/maphash"
	"sync"

	"github.com/berth-dev/berth/host/store"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
)

// Replicas remembers what preparation and validation made of pods. Both look at
// a pod's spec, labels and annotations, and otherwise at its metadata alone: a
// replica of a pod that passed needs but its metadata checked, which is a
// fiftieth of the work. Replicas then share the memory of one spec.
//
// What is refused or warned of is never remembered, nor what hangs on the
// pod's name or on the time.
type Replicas struct {
	seed maphash.Seed

	mu sync.Mutex
	// once holds hashes of pods that came once. Most of those that never come
	// again are not worth a copy.
	once [1024]uint64
	// young and old are two generations: what is asked for again stays.
	young, old map[string]*outcome
	bytes      int
}

// outcome is what was made of a pod. It is shared and never changed.
type outcome struct {
	labels, annotations map[string]string
	spec                corev1.PodSpec
	status              corev1.PodStatus
}

const (
	// longestLike bounds the pods that are remembered, mostLikes a generation.
	longestLike = 8 << 10
	mostLikes   = 512 << 10
)

func newReplicas() *Replicas {
	return &Replicas{seed: maphash.MakeSeed(), young: map[string]*outcome{}}
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

// Recall makes of a pod what was made of a replica of it. Nil if there was
// none, or if something about the metadata is to be said.
func (r *Replicas) Recall(like *Like, obj store.Object) store.Object {
	if r == nil || like == nil {
		return nil
	}
	known := r.find(like)
	if known == nil {
		return nil
	}
	made := &corev1.Pod{ObjectMeta: obj.(*corev1.Pod).ObjectMeta, Spec: known.spec, Status: known.status}
	if made.UID == "" || !plainMetadata(&made.ObjectMeta) {
		return nil
	}
	made.Labels, made.Annotations = known.labels, known.annotations
	made.Generation = 1
	return made
}

// plainMetadata tells that there is nothing to refuse in it, nor to warn of.
func plainMetadata(meta *metav1.ObjectMeta) bool {
	return meta.Name != "" && len(validation.IsDNS1123Label(meta.Name)) == 0 &&
		len(corevalidation.ValidateObjectMeta(meta, true, corevalidation.ValidatePodName, field.NewPath("metadata"))) == 0
}

func (r *Replicas) find(like *Like) *outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.young[string(like.data)]; ok {
		return known
	}
	known, ok := r.old[string(like.data)]
	if ok {
		delete(r.old, string(like.data))
		r.put(string(like.data), known)
	}
	return known
}

// put remembers. Called with mu held.
func (r *Replicas) put(like string, known *outcome) {
	if r.bytes+len(like) > mostLikes {
		r.old, r.young, r.bytes = r.young, map[string]*outcome{}, 0
	}
	r.young[like] = known
	r.bytes += len(like)
}

// Keep remembers what was made of a pod, from the second replica on.
func (r *Replicas) Keep(like *Like, made store.Object) {
	if r == nil || like == nil {
		return
	}
	hash := maphash.Bytes(r.seed, like.data)
	r.mu.Lock()
	defer r.mu.Unlock()
	slot := &r.once[hash%uint64(len(r.once))]
	if *slot != hash {
		*slot = hash
		return
	}
	// A copy: whoever made it may have to try again, beginning with its parts.
	pod := made.(*corev1.Pod).DeepCopy()
	r.put(string(like.data), &outcome{pod.Labels, pod.Annotations, pod.Spec, pod.Status})
}
