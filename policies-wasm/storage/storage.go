package storage

import (
	"github.com/berth-dev/berth/sdk/facts"
	"github.com/berth-dev/berth/sdk/guest"
)

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
	syms     *facts.Symbols
	refusal  string
}

// New makes an empty collection, whose names are of a table of symbols.
func New(syms *facts.Symbols) *Objects {
	return &Objects{
		syms:   syms,
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

// Refuse refuses a pod as such, in words that name an object.
func (s *Objects) Refuse(reason guest.ReasonID, words string) guest.Answer {
	s.refusal = words
	return guest.Refuse(reason)
}

// Refusal implements guest.Refuser.
func (s *Objects) Refusal() string { return s.refusal }

// NotFound says that an object is not there, as Kubernetes does.
func (s *Objects) NotFound(resource string, name facts.Symbol) string {
	return resource + " " + s.Quote(name) + " not found"
}

// Quote is a name between quotes.
func (s *Objects) Quote(name facts.Symbol) string { return `"` + s.syms.String(name) + `"` }

// NoClaim says why a volume of a pod has no claim.
func (s *Objects) NoClaim(namespace facts.Symbol, v *facts.Volume) string {
	switch {
	case !v.Ephemeral:
		return s.NotFound("persistentvolumeclaim", v.ID)
	case s.Claims[Key{namespace, v.ID}] != nil:
		return "persistentvolumeclaim " + s.Quote(v.ID) + " was not created for the pod (pod is not owner)"
	}
	return "waiting for ephemeral volume controller to create the persistentvolumeclaim " + s.Quote(v.ID)
}

// Empty says whether a symbol stands for no text.
func Empty(s facts.Symbol) bool { return s == facts.NoSymbol || s == facts.EmptySymbol }
