package storage

import "github.com/berth-dev/berth/sdk"

// Key names an object in a namespace.
type Key struct{ Namespace, Name sdk.Symbol }

// Objects are the objects of storage. A policy embeds it to be told of them.
type Objects struct {
	Claims  map[Key]*sdk.Object
	Volumes map[sdk.Symbol]*sdk.Object
	Classes map[sdk.Symbol]*sdk.StorageClass
	Nodes   map[sdk.Symbol]*sdk.CSINode
	Drivers map[sdk.Symbol]*sdk.CSIDriver
	// Capacities are what is left, by name, and Attachments those of a node.
	Capacities  map[Key]*sdk.CSIStorageCapacity
	Attachments map[sdk.Symbol]map[sdk.Symbol]*sdk.VolumeAttachment

	attached map[sdk.Symbol]sdk.Symbol // attachment → node
}

// New makes an empty collection.
func New() *Objects {
	return &Objects{
		Claims: map[Key]*sdk.Object{}, Volumes: map[sdk.Symbol]*sdk.Object{},
		Classes: map[sdk.Symbol]*sdk.StorageClass{}, Nodes: map[sdk.Symbol]*sdk.CSINode{},
		Drivers: map[sdk.Symbol]*sdk.CSIDriver{}, Capacities: map[Key]*sdk.CSIStorageCapacity{},
		Attachments: map[sdk.Symbol]map[sdk.Symbol]*sdk.VolumeAttachment{}, attached: map[sdk.Symbol]sdk.Symbol{},
	}
}

// ObjectChanged takes in an object.
func (s *Objects) ObjectChanged(o *sdk.Object) {
	switch {
	case o.Claim != nil:
		s.Claims[Key{o.Namespace, o.Name}] = o
	case o.Volume != nil:
		s.Volumes[o.Name] = o
	case o.Class != nil:
		s.Classes[o.Name] = o.Class
	case o.CSINode != nil:
		s.Nodes[o.Name] = o.CSINode
	case o.CSIDriver != nil:
		s.Drivers[o.Name] = o.CSIDriver
	case o.Capacity != nil:
		s.Capacities[Key{o.Namespace, o.Name}] = o.Capacity
	case o.Attachment != nil:
		s.detach(o.Name)
		s.attach(o.Name, o.Attachment)
	}
}

// ObjectRemoved forgets one; of a removed object only the metadata is sure.
func (s *Objects) ObjectRemoved(o *sdk.Object) {
	switch o.Resource {
	case sdk.ResourcePersistentVolumeClaims:
		delete(s.Claims, Key{o.Namespace, o.Name})
	case sdk.ResourcePersistentVolumes:
		delete(s.Volumes, o.Name)
	case sdk.ResourceStorageClasses:
		delete(s.Classes, o.Name)
	case sdk.ResourceCSINodes:
		delete(s.Nodes, o.Name)
	case sdk.ResourceCSIDrivers:
		delete(s.Drivers, o.Name)
	case sdk.ResourceCSIStorageCapacities:
		delete(s.Capacities, Key{o.Namespace, o.Name})
	case sdk.ResourceVolumeAttachments:
		s.detach(o.Name)
	}
}

func (s *Objects) attach(name sdk.Symbol, a *sdk.VolumeAttachment) {
	of := s.Attachments[a.NodeName]
	if of == nil {
		of = map[sdk.Symbol]*sdk.VolumeAttachment{}
		s.Attachments[a.NodeName] = of
	}
	of[name] = a
	s.attached[name] = a.NodeName
}

func (s *Objects) detach(name sdk.Symbol) {
	node, ok := s.attached[name]
	if !ok {
		return
	}
	delete(s.attached, name)
	delete(s.Attachments[node], name)
	if len(s.Attachments[node]) == 0 {
		delete(s.Attachments, node)
	}
}

// Claim is the claim behind a volume of a pod in a namespace; nil if there is
// none, or if it is not the pod's own where it should be.
func (s *Objects) Claim(namespace sdk.Symbol, v *sdk.Volume) *sdk.Object {
	o := s.Claims[Key{namespace, v.ID}]
	if o == nil || v.Ephemeral && o.Claim.OwnerPodUID <= sdk.EmptySymbol {
		return nil
	}
	return o
}

// Empty says whether a symbol stands for no text.
func Empty(s sdk.Symbol) bool { return s == sdk.NoSymbol || s == sdk.EmptySymbol }
