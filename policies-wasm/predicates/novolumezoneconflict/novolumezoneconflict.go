// Package novolumezoneconflict is the predicate NoVolumeZoneConflict: the zone
// and region labels of the volumes that the pod's claims are bound to admit the
// node's. A volume's label may list several values as a__b. A node without any
// such label is admitted; a volume's label failure-domain.beta.kubernetes.io/*
// is held against the node's topology.kubernetes.io/* where the node lacks the
// former. Claims that wait for their first consumer are passed by; others that
// are not bound refuse the pod.
//
// Source: kube-scheduler 1.36, plugin VolumeZone.
package novolumezoneconflict

import (
	"slices"
	"strings"

	"github.com/berth-dev/berth/policies-wasm/storage"
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/facts"
	"github.com/berth-dev/berth/sdk/guest"
	"github.com/berth-dev/berth/sdk/row"
)

func init() {
	guest.Register(guest.Policy{
		Name: "NoVolumeZoneConflict", Kind: guest.KindPredicate, Scope: guest.ScopeSet,
		Description:   "The node is in the zones and regions of the pod's volumes.",
		Reads:         sdk.PodLabels | sdk.PodVolumes | sdk.NodeLabels | sdk.VolumeObjects,
		SkipDependsOn: sdk.PodVolumes | sdk.VolumeObjects,
		Open:          open,
	})
}

// labels are those that say where a volume is, each with the one that a node
// may bear in its stead.
var labels = [...][2]string{
	{"failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"},
	{"failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"},
	{"topology.kubernetes.io/zone", "topology.kubernetes.io/zone"},
	{"topology.kubernetes.io/region", "topology.kubernetes.io/region"},
}

// place is where a volume can be used, by one of labels.
type place struct {
	label  int
	values []facts.Symbol
}

type policy struct {
	*storage.Objects
	rows    *row.Table
	keys    [len(labels)][2]facts.Symbol
	columns [len(labels)][]facts.Symbol
	others  [len(labels)][]facts.Symbol
	places  []place

	refused, missing, noClass, unbound, noVolume guest.ReasonID
}

func open(s *guest.Setup) (any, error) {
	p := &policy{
		Objects: storage.New(s.Rows.Symbols), rows: s.Rows,
		refused:  s.Reasons.ID(sdk.RejectFinal("node(s) had no available volume zone")),
		missing:  s.Reasons.ID(sdk.RejectFinal("persistentvolumeclaim or its storageclass not found")),
		noClass:  s.Reasons.ID(sdk.RejectFinal("PersistentVolumeClaim had no pv name and storageClass name")),
		unbound:  s.Reasons.ID(sdk.RejectFinal("PersistentVolume had no name")),
		noVolume: s.Reasons.ID(sdk.RejectFinal("persistentvolume not found")),
	}
	for i, pair := range labels {
		p.keys[i] = [2]facts.Symbol{s.Rows.Symbols.Intern(pair[0]), s.Rows.Symbols.Intern(pair[1])}
	}
	return p, s.Config.OnlyKeys()
}

func (p *policy) PreFilter(pod *sdk.Pod) guest.Answer {
	p.places = p.places[:0]
	for i := range pod.Volumes {
		v := &pod.Volumes[i]
		if v.Kind != facts.VolumeClaim || v.Ephemeral {
			continue
		}
		claim := p.Claim(pod.Namespace, v)
		if claim == nil {
			return p.Refuse(p.missing, p.NoClaim(pod.Namespace, v))
		}
		if reason := p.claim(claim); reason != 0 {
			return p.Refuse(reason, p.words(reason, claim.Claim))
		}
	}
	if len(p.places) == 0 {
		return guest.Skip
	}
	for i := range p.keys {
		p.columns[i] = p.rows.LabelColumn(p.keys[i][0])
		p.others[i] = p.rows.LabelColumn(p.keys[i][1])
	}
	return guest.AskRows
}

// words are those of a reason that name what a claim lacks.
func (p *policy) words(reason guest.ReasonID, claim *facts.PersistentVolumeClaim) string {
	switch reason {
	case p.noVolume:
		return p.NotFound("persistentvolume", claim.VolumeName)
	case p.missing:
		return p.NotFound("storageclass.storage.k8s.io", claim.StorageClass)
	}
	return ""
}

// claim adds the places of the volume that a claim is bound to.
func (p *policy) claim(o *facts.Object) guest.ReasonID {
	if !storage.Empty(o.Claim.VolumeName) {
		v := p.Volumes[o.Claim.VolumeName]
		if v == nil {
			return p.noVolume
		}
		p.add(v)
		return 0
	}
	if storage.Empty(o.Claim.StorageClass) {
		return p.noClass
	}
	class := p.Classes[o.Claim.StorageClass]
	switch {
	case class == nil:
		return p.missing
	case class.WaitForFirstConsumer:
		return 0
	}
	return p.unbound
}

func (p *policy) add(v *facts.Object) {
	for i := range p.keys {
		value := v.Labels.Value(p.keys[i][0])
		if value == facts.NoSymbol {
			continue
		}
		if values, ok := p.split(p.rows.Symbols.String(value)); ok {
			p.places = append(p.places, place{i, values})
		}
	}
}

// split reads a__b; a list with an empty part says nothing.
func (p *policy) split(text string) (values []facts.Symbol, ok bool) {
	for {
		part, rest, more := strings.Cut(text, "__")
		part = strings.TrimSpace(part)
		if part == "" {
			return nil, false
		}
		values = append(values, p.rows.Symbols.Intern(part))
		if !more {
			return values, true
		}
		text = rest
	}
}

func (p *policy) FilterRows(slots []int32, verdicts []guest.ReasonID) {
	for i, slot := range slots {
		verdicts[i] = 0
		if p.placed(slot) && !p.fits(slot) {
			verdicts[i] = p.refused
		}
	}
}

// placed says whether the node says where it is.
func (p *policy) placed(slot int32) bool {
	for i := range p.columns {
		if p.columns[i][slot] != facts.NoSymbol {
			return true
		}
	}
	return false
}

func (p *policy) fits(slot int32) bool {
	for i := range p.places {
		at := &p.places[i]
		value := p.columns[at.label][slot]
		if value == facts.NoSymbol {
			value = p.others[at.label][slot]
		}
		if value == facts.NoSymbol || !slices.Contains(at.values, value) {
			return false
		}
	}
	return true
}
