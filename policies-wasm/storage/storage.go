package storage

import "github.com/berth-dev/berth/sdk/facts"

// Key names an object in a namespace.
type Key struct{ Namespace, Name facts.Symbol }

// Objects are the objects of storage. A policy embeds it to be told of them.
type Objects struct {
	Claims  map[Key]*facts.Object
	Volumes map[facts.Symbol]*facts.Object
	Classes map[facts.Symbol]*facts.StorageClass
	Nodes   map[facts.Symbol]*facts.CSINode
	Drivers map[facts.Symbol]*facts.CSIDriver
	// Capacities are what is left, by name, and Attachments those of a node.
	Capacities  map[Key]*facts.CSIStorageCapacity
	Attachments map[facts.Symbol]map[facts.Symbol]*facts.VolumeAttachment

	attached map[facts.Symbol]facts.Symbol // attachment → node
}

// New makes an empty collection.
func New() *Objects {
	return &Objects{
		Claims: map[Key]*facts.Object{}, Volumes: map[facts.Symbol]*facts.Object{},
		Classes: map[facts.Symbol]*facts.StorageClass{}, Nodes: map[facts.Symbol]*facts.CSINode{},
		Drivers: map[facts.Symbol]*facts.CSIDriver{}, Capacities: map[Key]*facts.CSIStorageCapacity{},
		Attachments: map[facts.Symbol]map[facts.Symbol]*facts.VolumeAttachment{}, attached: map[facts.Symbol]facts.Symbol{},
	}
}

// ObjectChanged takes in an object.
func (s *Objects) ObjectChanged(o *facts.Object) {
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
func (s *Objects) ObjectRemoved(o *facts.Object) {
	switch o.Resource {
	case facts.ResourcePersistentVolumeClaims:
		delete(s.Claims, Key{o.Namespace, o.Name})
	case facts.ResourcePersistentVolumes:
		delete(s.Volumes, o.Name)
	case facts.ResourceStorageClasses:
		delete(s.Classes, o.Name)
	case facts.ResourceCSINodes:
		delete(s.Nodes, o.Name)
	case facts.ResourceCSIDrivers:
		delete(s.Drivers, o.Name)
	case facts.ResourceCSIStorageCapacities:
		delete(s.Capacities, Key{o.Namespace, o.Name})
	case facts.ResourceVolumeAttachments:
		s.detach(o.Name)
	}
}

func (s *Objects) attach(name facts.Symbol, a *facts.VolumeAttachment) {
	of := s.Attachments[a.NodeName]
	if of == nil {
		of = map[facts.Symbol]*facts.VolumeAttachment{}
		s.Attachments[a.NodeName] = of
	}
	of[name] = a
	s.attached[name] = a.NodeName
}

func (s *Objects) detach(name facts.Symbol) {
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
func (s *Objects) Claim(namespace facts.Symbol, v *facts.Volume) *facts.Object {
	o := s.Claims[Key{namespace, v.ID}]
	if o == nil || v.Ephemeral && o.Claim.OwnerPodUID <= facts.EmptySymbol {
		return nil
	}
	return o
}

// Empty says whether a symbol stands for no text.
func Empty(s facts.Symbol) bool { return s == facts.NoSymbol || s == facts.EmptySymbol }
