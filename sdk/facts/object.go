package facts

import (
	"slices"

	"github.com/berth-dev/berth/abi/fb"
)

// Resource says what a cluster object is.
type Resource uint8

const (
	ResourceOther Resource = iota
	ResourceServices
	ResourceReplicationControllers
	ResourceReplicaSets
	ResourceStatefulSets
	ResourceNamespaces
	ResourcePersistentVolumes
	ResourcePersistentVolumeClaims
	ResourceStorageClasses
	ResourceCSINodes
	ResourceCSIDrivers
	ResourceCSIStorageCapacities
	ResourceVolumeAttachments
)

// Object is one cluster object. Which of the pointers is set depends on Resource.
type Object struct {
	Resource             Resource
	Namespace, Name, UID Symbol
	Labels, Annotations  Labels
	// Terminating: it is about to go.
	Terminating bool
	// Selector of a service or an owner: the pods that it selects.
	Selector   Selector
	Volume     *PersistentVolume
	Claim      *PersistentVolumeClaim
	Class      *StorageClass
	CSINode    *CSINode
	CSIDriver  *CSIDriver
	Capacity   *CSIStorageCapacity
	Attachment *VolumeAttachment
}

// VolumePhase is the phase of a volume or claim.
type VolumePhase uint8

const (
	VolumePending VolumePhase = iota
	VolumeAvailable
	VolumeBound
	VolumeReleased
	VolumeFailed
	VolumeLost
)

// PersistentVolume is one volume of the cluster.
type PersistentVolume struct {
	Capacity                            int64
	AccessModes                         []Symbol
	StorageClass                        Symbol
	Phase                               VolumePhase
	Block                               bool
	ClaimNamespace, ClaimName, ClaimUID Symbol
	// Affinity says which nodes can use it; all if HasAffinity is false.
	HasAffinity          bool
	Affinity             []NodeTerm
	Source               Volume
	CSIDriver, CSIHandle Symbol
	AttributesClass      Symbol
}

// PersistentVolumeClaim is one claim.
type PersistentVolumeClaim struct {
	Request     int64
	AccessModes []Symbol
	// HasClass is false where the claim leaves the class to the cluster.
	HasClass                 bool
	StorageClass             Symbol
	Phase                    VolumePhase
	Block                    bool
	VolumeName, SelectedNode Symbol
	// Selector of volumes; all if it is absent.
	Selector Selector
	// Bound: the volume's binder is done with it.
	Bound           bool
	OwnerPodUID     Symbol
	AttributesClass Symbol
}

// StorageClass is one class of volumes.
type StorageClass struct {
	Provisioner          Symbol
	WaitForFirstConsumer bool
	Topologies           []NodeTerm
	Default              bool
}

// CSINodeDriver is what one driver says of a node. Limit is -1 if it says none.
type CSINodeDriver struct {
	Name, NodeID Symbol
	Limit        int32
	TopologyKeys []Symbol
}

// CSINode lists the drivers of the node of the same name.
type CSINode struct {
	Drivers  []CSINodeDriver
	Migrated []Symbol
}

// CSIDriver is what a driver declares of itself.
type CSIDriver struct{ AttachRequired, StorageCapacity bool }

// CSIStorageCapacity is what is left of a class in a part of the topology; -1
// stands for absence.
type CSIStorageCapacity struct {
	StorageClass                Symbol
	Capacity, MaximumVolumeSize int64
	Topology                    Selector
}

// VolumeAttachment is one volume's attachment to a node.
type VolumeAttachment struct {
	Attacher, NodeName, VolumeName Symbol
	Attached                       bool
}

// DecodeObject makes an object of its own memory, so that it may be kept.
func DecodeObject(syms *Symbols, r *fb.Object) *Object {
	d := &Decoder{syms: syms}
	o := &Object{
		Resource: Resource(r.Resource()), Namespace: syms.InternBytes(r.Namespace()),
		Name: syms.InternBytes(r.Name()), UID: syms.InternBytes(r.Uid()),
		Labels:      Labels{syms, d.Pairs(nil, r.LabelsLength(), r.Labels)},
		Annotations: Labels{syms, d.Pairs(nil, r.AnnotationsLength(), r.Annotations)},
		Selector:    d.selector(r.Selector(nil)),
		Terminating: r.Terminating(),
	}
	if pv := r.Pv(nil); pv != nil {
		o.Volume = d.persistentVolume(pv)
	}
	if pvc := r.Pvc(nil); pvc != nil {
		o.Claim = d.claim(pvc)
	}
	if c := r.StorageClass(nil); c != nil {
		o.Class = &StorageClass{
			Provisioner: syms.InternBytes(c.Provisioner()), Default: c.IsDefault(),
			WaitForFirstConsumer: c.BindingMode() == fb.BindingModeWaitForFirstConsumer,
			Topologies:           d.nodeTerms(nil, c.TopologiesLength(), c.Topologies),
		}
	}
	d.csi(o, r)
	return o
}

func (d *Decoder) persistentVolume(pv *fb.PersistentVolume) *PersistentVolume {
	out := &PersistentVolume{
		Capacity: pv.Capacity(), AccessModes: d.owned(pv.AccessModesLength(), pv.AccessModes),
		StorageClass: d.syms.InternBytes(pv.StorageClass()), Phase: VolumePhase(pv.Phase()), Block: pv.Block(),
		ClaimNamespace: d.syms.InternBytes(pv.ClaimNamespace()), ClaimName: d.syms.InternBytes(pv.ClaimName()),
		ClaimUID: d.syms.InternBytes(pv.ClaimUid()), HasAffinity: pv.HasAffinity(),
		Affinity:  d.nodeTerms(nil, pv.AffinityLength(), pv.Affinity),
		CSIDriver: d.syms.InternBytes(pv.CsiDriver()), CSIHandle: d.syms.InternBytes(pv.CsiHandle()),
		AttributesClass: d.syms.InternBytes(pv.AttributesClass()),
	}
	if src := pv.Source(nil); src != nil {
		out.Source = d.volume(src)
	}
	return out
}

func (d *Decoder) claim(c *fb.PersistentVolumeClaim) *PersistentVolumeClaim {
	out := &PersistentVolumeClaim{
		Request: c.Request(), AccessModes: d.owned(c.AccessModesLength(), c.AccessModes),
		HasClass: c.HasClass(), StorageClass: d.syms.InternBytes(c.StorageClass()),
		Phase: VolumePhase(c.Phase()), Block: c.Block(), VolumeName: d.syms.InternBytes(c.VolumeName()),
		SelectedNode: d.syms.InternBytes(c.SelectedNode()), Bound: c.Bound(), OwnerPodUID: d.syms.InternBytes(c.OwnerPodUid()),
		AttributesClass: d.syms.InternBytes(c.AttributesClass()),
	}
	if c.HasSelector() {
		out.Selector = d.selector(c.Selector(nil))
	}
	return out
}

func (d *Decoder) csi(o *Object, r *fb.Object) {
	if n := r.CsiNode(nil); n != nil {
		o.CSINode = &CSINode{Migrated: d.owned(n.MigratedLength(), n.Migrated)}
		var drv fb.CSINodeDriver
		for i := 0; i < n.DriversLength(); i++ {
			n.Drivers(&drv, i)
			o.CSINode.Drivers = append(o.CSINode.Drivers, CSINodeDriver{
				Name: d.syms.InternBytes(drv.Name()), NodeID: d.syms.InternBytes(drv.NodeId()), Limit: drv.Limit(),
				TopologyKeys: d.owned(drv.TopologyKeysLength(), drv.TopologyKeys),
			})
		}
	}
	if c := r.CsiDriver(nil); c != nil {
		o.CSIDriver = &CSIDriver{AttachRequired: c.AttachRequired(), StorageCapacity: c.StorageCapacity()}
	}
	if c := r.CsiCapacity(nil); c != nil {
		o.Capacity = &CSIStorageCapacity{
			StorageClass: d.syms.InternBytes(c.StorageClass()), Capacity: c.Capacity(), MaximumVolumeSize: c.MaximumVolumeSize(),
		}
		if c.HasTopology() {
			o.Capacity.Topology = d.selector(c.Topology(nil))
		}
	}
	if a := r.Attachment(nil); a != nil {
		o.Attachment = &VolumeAttachment{
			Attacher: d.syms.InternBytes(a.Attacher()), NodeName: d.syms.InternBytes(a.NodeName()),
			VolumeName: d.syms.InternBytes(a.VolumeName()), Attached: a.Attached(),
		}
	}
}

// owned is symbols in a slice of their own.
func (d *Decoder) owned(n int, at func(int) []byte) []Symbol { return slices.Clone(d.symbols(n, at)) }
