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
)

func init() {
	sdk.Register(sdk.Policy{
		Name: "NoDiskConflict", Kind: sdk.KindPredicate, Scope: sdk.ScopeSet,
		Description: "No pod holds a disk or claim that the pod would need for itself.",
		Reads:       sdk.PodLabels | sdk.PodVolumes | sdk.NodeVolumes | sdk.VolumeObjects,
		Open:        open,
	})
}

type policy struct {
	*storage.Objects
	rows *sdk.Rows
	// users counts the pods that use a claim.
	users map[storage.Key]int32
	once  sdk.Symbol

	disks    []sdk.Volume
	conflict bool

	refusedDisk, refusedClaim, missing sdk.ReasonID
}

func open(s *sdk.Setup) (any, error) {
	return &policy{
		Objects: storage.New(), rows: s.Rows, users: map[storage.Key]int32{},
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
		if v.Kind != sdk.VolumeClaim || v.Ephemeral {
			continue
		}
		key := storage.Key{Namespace: v.Namespace, Name: v.ID}
		if p.users[key] += sign * v.Uses; p.users[key] == 0 {
			delete(p.users, key)
		}
	}
}

func (p *policy) PreFilter(pod *sdk.Pod) sdk.Answer {
	p.disks, p.conflict = p.disks[:0], false
	for i := range pod.Volumes {
		v := &pod.Volumes[i]
		switch {
		case exclusive(v.Kind):
			p.disks = append(p.disks, *v)
		case v.Kind == sdk.VolumeClaim && !v.Ephemeral:
			key := storage.Key{Namespace: pod.Namespace, Name: v.ID}
			claim := p.Claims[key]
			if claim == nil {
				return sdk.Refuse(p.missing)
			}
			if p.users[key] > 0 && slices.Contains(claim.Claim.AccessModes, p.once) {
				p.conflict = true
			}
		}
	}
	if len(p.disks) == 0 && !p.conflict {
		return sdk.Skip
	}
	return sdk.AskRows
}

func exclusive(k sdk.VolumeKind) bool {
	return k == sdk.VolumeGCEPersistentDisk || k == sdk.VolumeAWSElasticBlockStore ||
		k == sdk.VolumeISCSI || k == sdk.VolumeRBD
}

func (p *policy) FilterRows(slots []int32, verdicts []sdk.ReasonID) {
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

func (p *policy) clashes(held []sdk.Volume) bool {
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

func clash(a, b *sdk.Volume) bool {
	if a.Kind != b.Kind || a.ID != b.ID {
		return false
	}
	if a.Kind == sdk.VolumeAWSElasticBlockStore {
		return true
	}
	if a.ReadOnly && b.ReadOnly {
		return false
	}
	return a.Kind != sdk.VolumeRBD || a.Pool == b.Pool &&
		slices.ContainsFunc(a.Monitors, func(m sdk.Symbol) bool { return slices.Contains(b.Monitors, m) })
}
