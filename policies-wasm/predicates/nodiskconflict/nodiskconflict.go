// Package nodiskconflict is the predicate NoDiskConflict: no pod of the node
// holds a disk that the pod brings along, where
//
//   - a GCE disk, an iSCSI name or an RBD image (same pool, a monitor in common)
//     may be shared if all only read;
//   - an EBS volume may not be shared.
//
// A claim with the access mode ReadWriteOncePod that a pod uses anywhere keeps
// others off all nodes. A claim that does not exist refuses the pod.
//
// Source: kube-scheduler 1.36, plugin VolumeRestrictions.
package nodiskconflict

import (
	"slices"

	"github.com/berth-dev/berth/policies-wasm/storage"
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/facts"
	"github.com/berth-dev/berth/sdk/guest"
	"github.com/berth-dev/berth/sdk/row"
)

func init() {
	guest.Register(guest.Policy{
		Name: "NoDiskConflict", Kind: guest.KindPredicate, Scope: guest.ScopeSet,
		Description:   "No pod holds a disk or claim that the pod would need for itself.",
		Reads:         sdk.PodLabels | sdk.PodVolumes | sdk.NodeVolumes | sdk.VolumeObjects,
		SkipDependsOn: sdk.PodVolumes | sdk.NodeVolumes | sdk.VolumeObjects,
		Open:          open,
	})
}

type policy struct {
	*storage.Objects
	rows *row.Table
	// users counts the pods that use a claim.
	users map[storage.Key]int32
	once  facts.Symbol

	disks    []facts.Volume
	conflict bool

	refusedDisk, refusedClaim, missing guest.ReasonID
}

func open(s *guest.Setup) (any, error) {
	return &policy{
		Objects: storage.New(s.Rows.Symbols), rows: s.Rows, users: map[storage.Key]int32{},
		once:        s.Rows.Symbols.Intern("ReadWriteOncePod"),
		refusedDisk: s.Reasons.ID(sdk.Reject("node(s) had no available disk")),
		refusedClaim: s.Reasons.ID(sdk.Reject("node(s) unavailable due to PersistentVolumeClaim with " +
			"ReadWriteOncePod access mode already in-use by another pod")),
		missing: s.Reasons.ID(sdk.RejectFinal("persistentvolumeclaim not found")),
	}, s.Config.OnlyKeys()
}

func (p *policy) RowAdded(slot int32)   { p.count(slot, 1) }
func (p *policy) RowRemoved(slot int32) { p.count(slot, -1) }

func (p *policy) count(slot, sign int32) {
	for i := range p.rows.Volumes[slot] {
		v := &p.rows.Volumes[slot][i]
		if v.Kind != facts.VolumeClaim || v.Ephemeral {
			continue
		}
		key := storage.Key{Namespace: v.Namespace, Name: v.ID}
		if p.users[key] += sign * v.Uses; p.users[key] == 0 {
			delete(p.users, key)
		}
	}
}

func (p *policy) PreFilter(pod *sdk.Pod) guest.Answer {
	p.disks, p.conflict = p.disks[:0], false
	for i := range pod.Volumes {
		v := &pod.Volumes[i]
		switch {
		case exclusive(v.Kind):
			p.disks = append(p.disks, *v)
		case v.Kind == facts.VolumeClaim && !v.Ephemeral:
			key := storage.Key{Namespace: pod.Namespace, Name: v.ID}
			claim := p.Claims[key]
			if claim == nil {
				return p.Refuse(p.missing, p.NoClaim(pod.Namespace, v))
			}
			if p.users[key] > 0 && slices.Contains(claim.Claim.AccessModes, p.once) {
				p.conflict = true
			}
		}
	}
	if len(p.disks) == 0 && !p.conflict {
		return guest.Skip
	}
	return guest.AskRows
}

func exclusive(k facts.VolumeKind) bool {
	return k == facts.VolumeGCEPersistentDisk || k == facts.VolumeAWSElasticBlockStore ||
		k == facts.VolumeISCSI || k == facts.VolumeRBD
}

func (p *policy) FilterRows(slots []int32, verdicts []guest.ReasonID) {
	for i, slot := range slots {
		switch {
		case p.clashes(p.rows.Volumes[slot]):
			verdicts[i] = p.refusedDisk
		case p.conflict:
			verdicts[i] = p.refusedClaim
		default:
			verdicts[i] = 0
		}
	}
}

func (p *policy) clashes(held []facts.Volume) bool {
	for i := range held {
		if !exclusive(held[i].Kind) {
			continue
		}
		for k := range p.disks {
			if clash(&p.disks[k], &held[i]) {
				return true
			}
		}
	}
	return false
}

func clash(a, b *facts.Volume) bool {
	if a.Kind != b.Kind || a.ID != b.ID {
		return false
	}
	if a.Kind == facts.VolumeAWSElasticBlockStore {
		return true
	}
	if a.ReadOnly && b.ReadOnly {
		return false
	}
	return a.Kind != facts.VolumeRBD || a.Pool == b.Pool &&
		slices.ContainsFunc(a.Monitors, func(m facts.Symbol) bool { return slices.Contains(b.Monitors, m) })
}
