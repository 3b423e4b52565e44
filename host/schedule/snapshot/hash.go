package snapshot

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"slices"
	"strings"

	"github.com/berth-dev/berth/abi"

	v1 "k8s.io/api/core/v1"
)

// seed makes the hashes unpredictable for whoever writes pods: two pods with
// equal hashes share remembered answers. No decision depends on its value.
var seed = maphash.MakeSeed()

// Generated volumes of service account tokens bear a random name.
const tokenVolumePrefix = "kube-api-access-"

// HashOf folds the pod's hashes of the given groups into one.
func (p *Pod) HashOf(groups abi.Groups) uint64 {
	var h uint64
	for left := groups & abi.PodGroups; left != 0; left &= left - 1 {
		i := bits.TrailingZeros32(uint32(left))
		h = mix(h ^ p.Hash[i] + uint64(i) + 1)
	}
	return h
}

// mix is the finalizer of splitmix64.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// facts gathers what is hashed, with lengths so that no two lists look alike.
type facts struct {
	buf []byte
	// broken is set by what cannot be encoded.
	broken bool
}

func (f *facts) text(s string) {
	f.number(int64(len(s)))
	f.buf = append(f.buf, s...)
}

func (f *facts) number(n int64) { f.buf = binary.AppendVarint(f.buf, n) }

func (f *facts) flag(b bool) {
	if b {
		f.number(1)
		return
	}
	f.number(0)
}

func (f *facts) texts(m map[string]string) {
	f.number(int64(len(m)))
	if len(m) == 1 {
		for k, v := range m {
			f.text(k)
			f.text(v)
		}
		return
	}
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		f.text(k)
		f.text(m[k])
	}
}

// record adds a Kubernetes type in its protobuf form, which sorts its maps.
func (f *facts) record(m interface{ Marshal() ([]byte, error) }) {
	b, err := m.Marshal()
	f.broken = f.broken || err != nil
	f.number(int64(len(b)))
	f.buf = append(f.buf, b...)
}

func (f *facts) resources(r *Resources) {
	f.number(r.MilliCPU)
	f.number(r.Memory)
	f.number(r.EphemeralStorage)
	f.number(int64(len(r.Scalars)))
	for _, s := range r.Scalars {
		f.text(s.Name)
		f.number(s.Value)
	}
}

// hashPod calls each by its name: through a list of functions the facts would
// be thought to escape, a KiB a pod.
func hashPod(p *Pod) (hash [8]uint64) {
	var stack [1024]byte
	f := facts{buf: stack[:0]}
	requestFacts(&f, p)
	hash[0] = f.sum(p)
	labelFacts(&f, p)
	hash[labelIndex] = f.sum(p)
	annotationFacts(&f, p)
	hash[2] = f.sum(p)
	affinityFacts(&f, p)
	hash[3] = f.sum(p)
	tolerationFacts(&f, p)
	hash[4] = f.sum(p)
	portFacts(&f, p)
	hash[5] = f.sum(p)
	volumeFacts(&f, p)
	hash[6] = f.sum(p)
	imageFacts(&f, p)
	hash[7] = f.sum(p)
	return hash
}

// labelIndex is the place of abi.PodLabels in Pod.Hash.
const labelIndex = 1

func hashLabels(p *Pod) uint64 {
	var stack [512]byte
	f := facts{buf: stack[:0]}
	labelFacts(&f, p)
	return f.sum(p)
}

// sum hashes what was gathered and begins anew. What cannot be encoded is each
// pod's own from there on.
func (f *facts) sum(p *Pod) uint64 {
	if f.broken {
		f.text(string(p.UID()))
	}
	h := maphash.Bytes(seed, f.buf)
	f.buf = f.buf[:0]
	return h
}

func requestFacts(f *facts, p *Pod) {
	f.resources(&p.Requests)
	f.resources(&p.NonZero)
	f.resources(&p.Weighed)
	f.flag(bestEffort(p.Object))
	f.number(int64(p.Priority()))
}

func labelFacts(f *facts, p *Pod) {
	f.text(p.Object.Namespace)
	f.texts(p.Object.Labels)
	f.number(int64(len(p.Object.OwnerReferences)))
	for i := range p.Object.OwnerReferences {
		o := &p.Object.OwnerReferences[i]
		f.text(o.APIVersion)
		f.text(o.Kind)
		f.text(o.Name)
		f.text(string(o.UID))
		f.flag(o.Controller != nil && *o.Controller)
	}
}

func annotationFacts(f *facts, p *Pod) { f.texts(p.Object.Annotations) }

func affinityFacts(f *facts, p *Pod) {
	spec := &p.Object.Spec
	f.text(spec.NodeName)
	f.texts(spec.NodeSelector)
	f.flag(spec.Affinity != nil)
	if spec.Affinity != nil {
		f.text(p.Object.Namespace)
		f.record(spec.Affinity)
	}
	f.number(int64(len(spec.TopologySpreadConstraints)))
	for i := range spec.TopologySpreadConstraints {
		f.record(&spec.TopologySpreadConstraints[i])
	}
}

func tolerationFacts(f *facts, p *Pod) {
	f.number(int64(len(p.Object.Spec.Tolerations)))
	for i := range p.Object.Spec.Tolerations {
		t := &p.Object.Spec.Tolerations[i]
		f.text(t.Key)
		f.text(string(t.Operator))
		f.text(t.Value)
		f.text(string(t.Effect))
	}
}

func portFacts(f *facts, p *Pod) {
	f.number(int64(len(p.Ports)))
	for _, port := range p.Ports {
		f.text(port.IP)
		f.text(port.Protocol)
		f.number(int64(port.Port))
	}
}

func volumeFacts(f *facts, p *Pod) {
	f.flag(len(p.Object.Spec.Volumes) > 0 && p.volumes)
	if p.volumes {
		f.text(p.Object.Namespace)
	}
	for i := range p.Object.Spec.Volumes {
		v := &p.Object.Spec.Volumes[i]
		if v.Projected != nil && strings.HasPrefix(v.Name, tokenVolumePrefix) {
			continue
		}
		f.record(v)
		if v.Ephemeral != nil {
			// Its claim bears the pod's name, and belongs to this very pod.
			f.text(p.Object.Name)
			f.text(string(p.UID()))
		}
	}
}

func imageFacts(f *facts, p *Pod) {
	spec := &p.Object.Spec
	for _, list := range [][]v1.Container{spec.Containers, spec.InitContainers} {
		f.number(int64(len(list)))
		for i := range list {
			f.text(list[i].Image)
		}
	}
	for i := range spec.Volumes {
		if image := spec.Volumes[i].Image; image != nil {
			f.text(image.Reference)
		}
	}
}
