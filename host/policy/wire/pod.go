package wire

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/abi/fb"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// Pod writes the input that starts a cycle. seq is that of the last batch that
// the guest was sent; now reaches only guests that read time.
func (e *Encoder) Pod(seq uint64, now int64, pod *snapshot.Pod, reads abi.Groups) []byte {
	e.reset()
	var p offset
	if !e.askedBefore(pod, reads) {
		p = e.pod(pod, reads)
	}
	fb.PodInputStart(e.b)
	fb.PodInputAddSeq(e.b, seq)
	if reads&abi.Time != 0 {
		fb.PodInputAddNow(e.b, now)
	}
	if p != 0 {
		fb.PodInputAddPod(e.b, p)
	}
	return e.finish(fb.PodInputEnd(e.b))
}

// podParts are the offsets of a pod's children, made before its table.
type podParts struct {
	uid, name                              offset
	namespace, labels, owners, annotations offset
	scalars                                offset
	nodeName, nodeSelector                 offset
	required, preferred                    offset
	affinity, anti, prefAffinity, prefAnti offset
	spread                                 offset
	tolerations, ports, volumes, images    offset
}

func (e *Encoder) pod(pod *snapshot.Pod, reads abi.Groups) offset {
	o := pod.Object
	var c podParts
	if reads&abi.Pods != 0 && !e.alike {
		c.uid, c.name = e.str(string(o.UID)), e.str(o.Name)
	}
	if reads&abi.PodLabels != 0 {
		c.namespace, c.labels, c.owners = e.str(o.Namespace), e.kvs(o.Labels), e.owners(o.OwnerReferences)
	}
	if reads&abi.PodAnnotations != 0 {
		c.annotations = e.kvs(o.Annotations)
	}
	if reads&abi.PodRequests != 0 {
		c.scalars = e.scalars(pod.Requests.Scalars)
	}
	if reads&abi.PodAffinity != 0 {
		e.affinity(&c, o)
	}
	if reads&abi.PodTolerations != 0 {
		c.tolerations = e.tolerations(o.Spec.Tolerations)
	}
	if reads&abi.PodPorts != 0 {
		c.ports = e.ports(pod.Ports)
	}
	if reads&abi.PodVolumes != 0 {
		c.volumes = e.podVolumes(o)
	}
	if reads&abi.PodImages != 0 {
		c.images = e.podImages(&o.Spec)
	}
	return e.podTable(pod, &c, reads)
}

func (e *Encoder) podTable(pod *snapshot.Pod, c *podParts, reads abi.Groups) offset {
	b, o := e.b, pod.Object
	fb.PodStart(b)
	fb.PodAddUid(b, c.uid)
	fb.PodAddName(b, c.name)
	fb.PodAddNamespace(b, c.namespace)
	fb.PodAddLabels(b, c.labels)
	fb.PodAddOwners(b, c.owners)
	fb.PodAddAnnotations(b, c.annotations)
	if reads&abi.Pods != 0 {
		fb.PodAddTerminating(b, o.DeletionTimestamp != nil)
	}
	if reads&abi.PodRequests != 0 {
		fb.PodAddRequests(b, e.amounts(&pod.Requests))
		fb.PodAddNonZero(b, e.amounts(&pod.Weighed))
		fb.PodAddScalars(b, c.scalars)
		fb.PodAddBestEffort(b, bestEffort(&o.Spec))
		if o.Spec.Priority != nil {
			fb.PodAddPriority(b, *o.Spec.Priority)
		}
	}
	fb.PodAddNodeName(b, c.nodeName)
	fb.PodAddNodeSelector(b, c.nodeSelector)
	fb.PodAddHasRequired(b, reads&abi.PodAffinity != 0 && requiredTerms(o) != nil)
	fb.PodAddRequired(b, c.required)
	fb.PodAddPreferred(b, c.preferred)
	fb.PodAddAffinity(b, c.affinity)
	fb.PodAddAntiAffinity(b, c.anti)
	fb.PodAddPreferredAffinity(b, c.prefAffinity)
	fb.PodAddPreferredAntiAffinity(b, c.prefAnti)
	fb.PodAddSpread(b, c.spread)
	fb.PodAddTolerations(b, c.tolerations)
	fb.PodAddPorts(b, c.ports)
	fb.PodAddVolumes(b, c.volumes)
	fb.PodAddImages(b, c.images)
	if reads&abi.PodImages != 0 {
		fb.PodAddContainers(b, int32(len(o.Spec.Containers)+len(o.Spec.InitContainers)))
	}
	return fb.PodEnd(b)
}

func (e *Encoder) owners(list []metav1.OwnerReference) offset {
	mark := len(e.offs)
	for i := range list {
		r := &list[i]
		version, kind, name, uid := e.str(r.APIVersion), e.str(r.Kind), e.str(r.Name), e.str(string(r.UID))
		fb.OwnerStart(e.b)
		fb.OwnerAddApiVersion(e.b, version)
		fb.OwnerAddKind(e.b, kind)
		fb.OwnerAddName(e.b, name)
		fb.OwnerAddUid(e.b, uid)
		fb.OwnerAddController(e.b, r.Controller != nil && *r.Controller)
		e.push(fb.OwnerEnd(e.b))
	}
	return e.vector(mark)
}

func (e *Encoder) tolerations(list []v1.Toleration) offset {
	mark := len(e.offs)
	for i := range list {
		t := &list[i]
		key, value := e.str(t.Key), e.str(t.Value)
		fb.TolerationStart(e.b)
		fb.TolerationAddKey(e.b, key)
		fb.TolerationAddValue(e.b, value)
		fb.TolerationAddOp(e.b, tolerationOp(t.Operator))
		fb.TolerationAddEffect(e.b, effect(t.Effect))
		e.push(fb.TolerationEnd(e.b))
	}
	return e.vector(mark)
}

func tolerationOp(op v1.TolerationOperator) fb.TolerationOp {
	switch op {
	case v1.TolerationOpExists:
		return fb.TolerationOpExists
	case "Gt":
		return fb.TolerationOpGt
	case "Lt":
		return fb.TolerationOpLt
	}
	return fb.TolerationOpEqual
}

// podImages are those of containers, init containers and image volumes.
func (e *Encoder) podImages(spec *v1.PodSpec) offset {
	mark := len(e.offs)
	for i := range spec.InitContainers {
		e.push(e.b.CreateString(NormalImage(spec.InitContainers[i].Image)))
	}
	for i := range spec.Containers {
		e.push(e.b.CreateString(NormalImage(spec.Containers[i].Image)))
	}
	for i := range spec.Volumes {
		if im := spec.Volumes[i].Image; im != nil {
			e.push(e.b.CreateString(NormalImage(im.Reference)))
		}
	}
	return e.vector(mark)
}

// NormalImage adds the tag latest to a name that has neither tag nor digest.
func NormalImage(name string) string {
	if strings.LastIndexByte(name, ':') <= strings.LastIndexByte(name, '/') {
		return name + ":latest"
	}
	return name
}

// bestEffort says whether no container asks for CPU or memory.
func bestEffort(spec *v1.PodSpec) bool {
	if spec.Resources != nil && asks(spec.Resources.Requests, spec.Resources.Limits) {
		return false
	}
	for _, list := range [...][]v1.Container{spec.Containers, spec.InitContainers} {
		for i := range list {
			if asks(list[i].Resources.Requests, list[i].Resources.Limits) {
				return false
			}
		}
	}
	return true
}

func asks(lists ...v1.ResourceList) bool {
	for _, l := range lists {
		for _, name := range [...]v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
			if q, ok := l[name]; ok && q.Sign() > 0 {
				return true
			}
		}
	}
	return false
}
