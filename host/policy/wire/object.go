package wire

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	volumehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/berth-dev/berth/abi/fb"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// defaultClass marks the storage class that claims without one get.
const defaultClass = "storageclass.kubernetes.io/is-default-class"

// migratedPlugins lists, on a CSINode, the plugins that CSI drivers stand in for.
const migratedPlugins = "storage.alpha.kubernetes.io/migrated-plugins"

// part is the table that an object has beside its metadata.
type part struct {
	resource fb.Resource
	selector offset
	o        offset
	add      func(e *Encoder, o offset)
}

// object writes a cluster object. Of a removed one its metadata is enough.
func (e *Encoder) object(d *snapshot.Delta) offset {
	p := e.objectPart(d.Object)
	if p.resource == fb.ResourceOther {
		p.resource = resourceNamed(d.Resource)
	}
	var namespace, name, uid, labels, annotations offset
	terminating := false
	if m, err := meta.Accessor(d.Object); err == nil {
		namespace, name, uid = e.str(m.GetNamespace()), e.str(m.GetName()), e.str(string(m.GetUID()))
		terminating = m.GetDeletionTimestamp() != nil
		labels = e.kvs(m.GetLabels())
		annotations = e.kvs(objectAnnotations(d.Object, m.GetAnnotations()))
	}
	fb.ObjectStart(e.b)
	fb.ObjectAddResource(e.b, p.resource)
	fb.ObjectAddNamespace(e.b, namespace)
	fb.ObjectAddName(e.b, name)
	fb.ObjectAddUid(e.b, uid)
	fb.ObjectAddLabels(e.b, labels)
	fb.ObjectAddAnnotations(e.b, annotations)
	fb.ObjectAddSelector(e.b, p.selector)
	fb.ObjectAddTerminating(e.b, terminating)
	if p.o != 0 {
		p.add(e, p.o)
	}
	return fb.ObjectEnd(e.b)
}

// objectAnnotations are sent for volumes, claims, classes and CSI nodes only:
// those of others tell a policy nothing.
func objectAnnotations(o runtime.Object, m map[string]string) map[string]string {
	switch o.(type) {
	case *v1.PersistentVolume, *v1.PersistentVolumeClaim, *storagev1.StorageClass, *storagev1.CSINode:
		return m
	}
	return nil
}

func (e *Encoder) objectPart(o runtime.Object) part {
	switch o := o.(type) {
	case *v1.Service:
		return part{resource: fb.ResourceServices, selector: e.mapSelector(o.Spec.Selector)}
	case *v1.ReplicationController:
		return part{resource: fb.ResourceReplicationControllers, selector: e.mapSelector(o.Spec.Selector)}
	case *appsv1.ReplicaSet:
		return part{resource: fb.ResourceReplicaSets, selector: e.selector(o.Spec.Selector, nil)}
	case *appsv1.StatefulSet:
		return part{resource: fb.ResourceStatefulSets, selector: e.selector(o.Spec.Selector, nil)}
	case *v1.Namespace:
		return part{resource: fb.ResourceNamespaces}
	}
	return e.volumePart(o)
}

func (e *Encoder) volumePart(o runtime.Object) part {
	switch o := o.(type) {
	case *v1.PersistentVolume:
		return part{fb.ResourcePersistentVolumes, 0, e.persistentVolume(o),
			func(e *Encoder, o offset) { fb.ObjectAddPv(e.b, o) }}
	case *v1.PersistentVolumeClaim:
		return part{fb.ResourcePersistentVolumeClaims, 0, e.claim(o),
			func(e *Encoder, o offset) { fb.ObjectAddPvc(e.b, o) }}
	case *storagev1.StorageClass:
		return part{fb.ResourceStorageClasses, 0, e.class(o),
			func(e *Encoder, o offset) { fb.ObjectAddStorageClass(e.b, o) }}
	case *storagev1.CSINode:
		return part{fb.ResourceCSINodes, 0, e.csiNode(o),
			func(e *Encoder, o offset) { fb.ObjectAddCsiNode(e.b, o) }}
	case *storagev1.CSIDriver:
		return part{fb.ResourceCSIDrivers, 0, e.csiDriver(o),
			func(e *Encoder, o offset) { fb.ObjectAddCsiDriver(e.b, o) }}
	case *storagev1.CSIStorageCapacity:
		return part{fb.ResourceCSIStorageCapacities, 0, e.csiCapacity(o),
			func(e *Encoder, o offset) { fb.ObjectAddCsiCapacity(e.b, o) }}
	case *storagev1.VolumeAttachment:
		return part{fb.ResourceVolumeAttachments, 0, e.attachment(o),
			func(e *Encoder, o offset) { fb.ObjectAddAttachment(e.b, o) }}
	}
	return part{}
}

var resources = map[string]fb.Resource{
	"services": fb.ResourceServices, "replicationcontrollers": fb.ResourceReplicationControllers,
	"replicasets": fb.ResourceReplicaSets, "statefulsets": fb.ResourceStatefulSets,
	"namespaces": fb.ResourceNamespaces, "persistentvolumes": fb.ResourcePersistentVolumes,
	"persistentvolumeclaims": fb.ResourcePersistentVolumeClaims, "storageclasses": fb.ResourceStorageClasses,
	"csinodes": fb.ResourceCSINodes, "csidrivers": fb.ResourceCSIDrivers,
	"csistoragecapacities": fb.ResourceCSIStorageCapacities, "volumeattachments": fb.ResourceVolumeAttachments,
}

// resourceNamed takes a resource with or without its group.
func resourceNamed(name string) fb.Resource {
	plain, _, _ := strings.Cut(name, ".")
	return resources[plain]
}

func modes(list []v1.PersistentVolumeAccessMode) []string {
	out := make([]string, len(list))
	for i := range list {
		out[i] = string(list[i])
	}
	return out
}

func volumePhase(p string) fb.VolumePhase {
	switch p {
	case string(v1.VolumeAvailable):
		return fb.VolumePhaseAvailable
	case string(v1.VolumeBound):
		return fb.VolumePhaseBound
	case string(v1.VolumeReleased):
		return fb.VolumePhaseReleased
	case string(v1.VolumeFailed):
		return fb.VolumePhaseFailed
	case string(v1.ClaimLost):
		return fb.VolumePhaseLost
	}
	return fb.VolumePhasePending
}

func block(mode *v1.PersistentVolumeMode) bool {
	return mode != nil && *mode == v1.PersistentVolumeBlock
}

func storage(l v1.ResourceList) int64 {
	q := l[v1.ResourceStorage]
	return q.Value()
}

func (e *Encoder) persistentVolume(pv *v1.PersistentVolume) offset {
	s := &pv.Spec
	src := persistentSource(&s.PersistentVolumeSource)
	source, access, class := e.volume(&src), e.strs(modes(s.AccessModes)), e.str(volumehelpers.GetPersistentVolumeClass(pv))
	attributes := e.str(deref(s.VolumeAttributesClassName))
	var ns, name, uid, affinity, driver, handle offset
	if c := s.ClaimRef; c != nil {
		ns, name, uid = e.str(c.Namespace), e.str(c.Name), e.str(string(c.UID))
	}
	required := s.NodeAffinity != nil && s.NodeAffinity.Required != nil
	if required {
		affinity = e.nodeTerms(s.NodeAffinity.Required.NodeSelectorTerms)
	}
	if s.CSI != nil {
		driver, handle = e.str(s.CSI.Driver), e.str(s.CSI.VolumeHandle)
	}
	fb.PersistentVolumeStart(e.b)
	fb.PersistentVolumeAddCapacity(e.b, storage(s.Capacity))
	fb.PersistentVolumeAddAccessModes(e.b, access)
	fb.PersistentVolumeAddStorageClass(e.b, class)
	fb.PersistentVolumeAddPhase(e.b, volumePhase(string(pv.Status.Phase)))
	fb.PersistentVolumeAddBlock(e.b, block(s.VolumeMode))
	fb.PersistentVolumeAddClaimNamespace(e.b, ns)
	fb.PersistentVolumeAddClaimName(e.b, name)
	fb.PersistentVolumeAddClaimUid(e.b, uid)
	fb.PersistentVolumeAddHasAffinity(e.b, required)
	fb.PersistentVolumeAddAffinity(e.b, affinity)
	fb.PersistentVolumeAddSource(e.b, source)
	fb.PersistentVolumeAddCsiDriver(e.b, driver)
	fb.PersistentVolumeAddCsiHandle(e.b, handle)
	fb.PersistentVolumeAddAttributesClass(e.b, attributes)
	return fb.PersistentVolumeEnd(e.b)
}

// deref returns what a name that may be absent points to.
func deref(name *string) string {
	if name == nil {
		return ""
	}
	return *name
}

func (e *Encoder) claim(c *v1.PersistentVolumeClaim) offset {
	s := &c.Spec
	access, name := e.strs(modes(s.AccessModes)), e.str(s.VolumeName)
	attributes := e.str(deref(s.VolumeAttributesClassName))
	var class, owner offset
	className, hasClass := claimClass(c)
	class = e.str(className)
	selector, node := e.selector(s.Selector, nil), e.str(c.Annotations["volume.kubernetes.io/selected-node"])
	if o := metav1.GetControllerOf(c); o != nil && o.Kind == "Pod" {
		owner = e.str(string(o.UID))
	}
	_, bound := c.Annotations["pv.kubernetes.io/bind-completed"]
	fb.PersistentVolumeClaimStart(e.b)
	fb.PersistentVolumeClaimAddRequest(e.b, storage(s.Resources.Requests))
	fb.PersistentVolumeClaimAddAccessModes(e.b, access)
	fb.PersistentVolumeClaimAddHasClass(e.b, hasClass)
	fb.PersistentVolumeClaimAddStorageClass(e.b, class)
	fb.PersistentVolumeClaimAddPhase(e.b, volumePhase(string(c.Status.Phase)))
	fb.PersistentVolumeClaimAddBlock(e.b, block(s.VolumeMode))
	fb.PersistentVolumeClaimAddVolumeName(e.b, name)
	fb.PersistentVolumeClaimAddSelectedNode(e.b, node)
	fb.PersistentVolumeClaimAddHasSelector(e.b, s.Selector != nil)
	fb.PersistentVolumeClaimAddSelector(e.b, selector)
	fb.PersistentVolumeClaimAddBound(e.b, s.VolumeName != "" && bound)
	fb.PersistentVolumeClaimAddOwnerPodUid(e.b, owner)
	fb.PersistentVolumeClaimAddAttributesClass(e.b, attributes)
	return fb.PersistentVolumeClaimEnd(e.b)
}

// claimClass is the class that a claim asks for; the annotation precedes the field.
func claimClass(c *v1.PersistentVolumeClaim) (class string, ok bool) {
	if class, ok = c.Annotations[v1.BetaStorageClassAnnotation]; ok {
		return class, true
	}
	if c.Spec.StorageClassName == nil {
		return "", false
	}
	return *c.Spec.StorageClassName, true
}

func (e *Encoder) class(c *storagev1.StorageClass) offset {
	provisioner := e.str(c.Provisioner)
	mark := len(e.offs)
	for i := range c.AllowedTopologies {
		e.push(e.topologyTerm(&c.AllowedTopologies[i]))
	}
	topologies := e.vector(mark)
	fb.StorageClassStart(e.b)
	fb.StorageClassAddProvisioner(e.b, provisioner)
	if m := c.VolumeBindingMode; m != nil && *m == storagev1.VolumeBindingWaitForFirstConsumer {
		fb.StorageClassAddBindingMode(e.b, fb.BindingModeWaitForFirstConsumer)
	}
	fb.StorageClassAddTopologies(e.b, topologies)
	fb.StorageClassAddIsDefault(e.b, c.Annotations[defaultClass] == "true")
	return fb.StorageClassEnd(e.b)
}

func (e *Encoder) topologyTerm(t *v1.TopologySelectorTerm) offset {
	mark := len(e.offs)
	for i := range t.MatchLabelExpressions {
		x := &t.MatchLabelExpressions[i]
		e.push(e.requirement(x.Key, fb.OpIn, x.Values))
	}
	expressions := e.vector(mark)
	fb.NodeTermStart(e.b)
	fb.NodeTermAddExpressions(e.b, expressions)
	return fb.NodeTermEnd(e.b)
}

func (e *Encoder) csiNode(n *storagev1.CSINode) offset {
	mark := len(e.offs)
	for i := range n.Spec.Drivers {
		d := &n.Spec.Drivers[i]
		name, id, keys := e.str(d.Name), e.str(d.NodeID), e.strs(d.TopologyKeys)
		fb.CSINodeDriverStart(e.b)
		fb.CSINodeDriverAddName(e.b, name)
		fb.CSINodeDriverAddNodeId(e.b, id)
		if d.Allocatable != nil && d.Allocatable.Count != nil {
			fb.CSINodeDriverAddLimit(e.b, *d.Allocatable.Count)
		}
		fb.CSINodeDriverAddTopologyKeys(e.b, keys)
		e.push(fb.CSINodeDriverEnd(e.b))
	}
	drivers, migrated := e.vector(mark), e.strs(splitList(n.Annotations[migratedPlugins]))
	fb.CSINodeStart(e.b)
	fb.CSINodeAddDrivers(e.b, drivers)
	fb.CSINodeAddMigrated(e.b, migrated)
	return fb.CSINodeEnd(e.b)
}

func (e *Encoder) csiDriver(d *storagev1.CSIDriver) offset {
	fb.CSIDriverStart(e.b)
	fb.CSIDriverAddAttachRequired(e.b, d.Spec.AttachRequired == nil || *d.Spec.AttachRequired)
	fb.CSIDriverAddStorageCapacity(e.b, d.Spec.StorageCapacity != nil && *d.Spec.StorageCapacity)
	return fb.CSIDriverEnd(e.b)
}

func (e *Encoder) csiCapacity(c *storagev1.CSIStorageCapacity) offset {
	class, topology := e.str(c.StorageClassName), e.selector(c.NodeTopology, nil)
	fb.CSIStorageCapacityStart(e.b)
	fb.CSIStorageCapacityAddStorageClass(e.b, class)
	if c.Capacity != nil {
		fb.CSIStorageCapacityAddCapacity(e.b, c.Capacity.Value())
	}
	if c.MaximumVolumeSize != nil {
		fb.CSIStorageCapacityAddMaximumVolumeSize(e.b, c.MaximumVolumeSize.Value())
	}
	fb.CSIStorageCapacityAddHasTopology(e.b, c.NodeTopology != nil)
	fb.CSIStorageCapacityAddTopology(e.b, topology)
	return fb.CSIStorageCapacityEnd(e.b)
}

func (e *Encoder) attachment(a *storagev1.VolumeAttachment) offset {
	attacher, node := e.str(a.Spec.Attacher), e.str(a.Spec.NodeName)
	var volume offset
	if a.Spec.Source.PersistentVolumeName != nil {
		volume = e.str(*a.Spec.Source.PersistentVolumeName)
	}
	fb.VolumeAttachmentStart(e.b)
	fb.VolumeAttachmentAddAttacher(e.b, attacher)
	fb.VolumeAttachmentAddNodeName(e.b, node)
	fb.VolumeAttachmentAddVolumeName(e.b, volume)
	fb.VolumeAttachmentAddAttached(e.b, a.Status.Attached)
	return fb.VolumeAttachmentEnd(e.b)
}
