package checkvolumebinding

import (
	"github.com/berth-dev/berth/policies-wasm/storage"
	"github.com/berth-dev/berth/sdk/facts"
	"github.com/berth-dev/berth/sdk/guest"
	"github.com/berth-dev/berth/sdk/row"
)

// provision is how a volume would be made for a claim.
type provision struct {
	// can is false where the class makes no volumes.
	can bool
	// allowed are the nodes on which it makes them, nil for all.
	allowed *row.NodeMatcher
	// counted: the driver tells what is left; enough are the parts of the
	// cluster in which enough is.
	counted bool
	enough  []*row.NodeMatcher
}

func (p *policy) provision(claim *facts.PersistentVolumeClaim, class *facts.StorageClass) provision {
	out := provision{can: !storage.Empty(class.Provisioner) && class.Provisioner != p.none}
	if !out.can {
		return out
	}
	if len(class.Topologies) > 0 {
		out.allowed = row.NewNodeMatcher(p.rows)
		out.allowed.RequireTerms(nil, true, class.Topologies)
	}
	driver := p.Drivers[class.Provisioner]
	if claim.Request == 0 || driver == nil || !driver.StorageCapacity {
		return out
	}
	out.counted = true
	for _, c := range p.Capacities {
		if c.StorageClass == claim.StorageClass && c.Topology.Present && room(c) >= claim.Request {
			out.enough = append(out.enough, p.within(&c.Topology))
		}
	}
	return out
}

// room is the largest volume that can be made: what the driver says of single
// volumes precedes what is left in all.
func room(c *facts.CSIStorageCapacity) int64 {
	if c.MaximumVolumeSize >= 0 {
		return c.MaximumVolumeSize
	}
	return c.Capacity
}

// within is for the nodes whose labels meet a selector; nil if all do.
func (p *policy) within(s *facts.Selector) *row.NodeMatcher {
	if len(s.Reqs) == 0 {
		return nil
	}
	m := row.NewNodeMatcher(p.rows)
	m.RequireTerms(nil, true, []facts.NodeTerm{{Labels: s.Reqs}})
	return m
}

// canMake says why no volume can be made for the claim on the node, if so.
func (p *policy) canMake(v *provision, slot int32) guest.ReasonID {
	if !v.can || v.allowed != nil && !v.allowed.Matches(slot) {
		return p.bindConflict
	}
	if !v.counted {
		return 0
	}
	for _, m := range v.enough {
		if m == nil || m.Matches(slot) {
			return 0
		}
	}
	return p.noSpace
}
