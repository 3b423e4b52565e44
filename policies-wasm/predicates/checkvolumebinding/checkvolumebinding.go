package checkvolumebinding

import (
	"cmp"
	"slices"

	"github.com/berth-dev/berth/policies-wasm/storage"
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/facts"
	"github.com/berth-dev/berth/sdk/guest"
	"github.com/berth-dev/berth/sdk/row"
)

func init() {
	for _, name := range [...]string{"CheckVolumeBinding", "NoVolumeNodeConflict"} {
		guest.Register(guest.Policy{
			Name: name, Kind: guest.KindPredicate, Scope: guest.ScopeSet,
			Description:   "The node can use the volumes of the pod's claims, or volumes can be had for them there.",
			Reads:         sdk.PodLabels | sdk.PodVolumes | sdk.NodeLabels | sdk.VolumeObjects,
			SkipDependsOn: sdk.PodVolumes | sdk.VolumeObjects,
			Open:          open,
		})
	}
}

// candidate is a volume that would do for a claim, on the nodes that match.
type candidate struct {
	name    facts.Symbol
	size    int64
	matcher *row.NodeMatcher // nil: all nodes
}

// wish is a claim that is to get a volume.
type wish struct {
	claim *facts.PersistentVolumeClaim
	// own is the volume set aside for the claim, which goes before the others.
	own        *candidate
	candidates []candidate
	provision  provision
}

type policy struct {
	*storage.Objects
	rows *row.Table
	none facts.Symbol // the provisioner that makes none

	bound  []*row.NodeMatcher
	lost   bool // a bound claim's volume is not there
	wishes []wish
	chosen []facts.Symbol

	missing, going, immediate, noClass           guest.ReasonID
	nodeConflict, bindConflict, noSpace, noFound guest.ReasonID
}

func open(s *guest.Setup) (any, error) {
	final := func(text string) guest.ReasonID { return s.Reasons.ID(sdk.RejectFinal(text)) }
	return &policy{
		Objects: storage.New(s.Rows.Symbols), rows: s.Rows, none: s.Rows.Symbols.Intern("kubernetes.io/no-provisioner"),
		missing:      final("persistentvolumeclaim not found or lost"),
		going:        final("persistentvolumeclaim is being deleted"),
		immediate:    final("pod has unbound immediate PersistentVolumeClaims"),
		noClass:      final("storageclass of a persistentvolumeclaim not found"),
		nodeConflict: final("node(s) didn't match PersistentVolume's node affinity"),
		bindConflict: final("node(s) didn't find available persistent volumes to bind"),
		noSpace:      final("node(s) did not have enough free storage"),
		noFound:      final("node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"),
	}, s.Config.OnlyKeys()
}

func (p *policy) PreFilter(pod *sdk.Pod) guest.Answer {
	p.bound, p.wishes, p.lost = p.bound[:0], p.wishes[:0], false
	claims := 0
	for i := range pod.Volumes {
		v := &pod.Volumes[i]
		if v.Kind != facts.VolumeClaim {
			continue
		}
		claims++
		claim := p.Claim(pod.Namespace, v)
		switch {
		case claim == nil:
			return p.Refuse(p.missing, p.NoClaim(pod.Namespace, v))
		case claim.Claim.Phase == facts.VolumeLost:
			return p.Refuse(p.missing, "persistentvolumeclaim "+p.Quote(claim.Name)+
				" bound to non-existent persistentvolume "+p.Quote(claim.Claim.VolumeName))
		case claim.Terminating:
			return p.Refuse(p.going, "persistentvolumeclaim "+p.Quote(claim.Name)+" is being deleted")
		}
		switch p.sort(claim) {
		case p.noClass:
			return p.Refuse(p.noClass, p.NotFound("storageclass.storage.k8s.io", claim.Claim.StorageClass))
		case p.immediate:
			return p.Refuse(p.immediate, "")
		}
	}
	if claims == 0 {
		return guest.Skip
	}
	slices.SortStableFunc(p.wishes, func(a, b wish) int { return cmp.Compare(a.claim.Request, b.claim.Request) })
	return guest.AskRows
}

// sort puts a claim where it belongs: bound, or to be.
func (p *policy) sort(o *facts.Object) guest.ReasonID {
	claim := o.Claim
	if claim.Bound {
		p.take(p.Volumes[claim.VolumeName])
		return 0
	}
	class := p.Classes[claim.StorageClass]
	switch {
	case class == nil && !storage.Empty(claim.StorageClass):
		return p.noClass
	case class == nil || !class.WaitForFirstConsumer || !storage.Empty(claim.VolumeName):
		return p.immediate
	}
	w := wish{claim: claim, provision: p.provision(claim, class)}
	if storage.Empty(claim.SelectedNode) {
		p.candidates(&w, o)
	}
	p.wishes = append(p.wishes, w)
	return 0
}

// take notes a bound volume.
func (p *policy) take(v *facts.Object) {
	if v == nil {
		p.lost = true
		return
	}
	if m := p.matcher(v.Volume); m != nil {
		p.bound = append(p.bound, m)
	}
}

// matcher is for the nodes that can use a volume, nil if all can.
func (p *policy) matcher(v *facts.PersistentVolume) *row.NodeMatcher {
	if !v.HasAffinity {
		return nil
	}
	m := row.NewNodeMatcher(p.rows)
	m.RequireTerms(nil, true, v.Affinity)
	return m
}

// candidates finds the volumes that would do for a claim on some node.
func (p *policy) candidates(w *wish, claim *facts.Object) {
	for name, o := range p.Volumes {
		v := o.Volume
		own := boundTo(v, claim)
		if !storage.Empty(v.ClaimName) && !own || o.Terminating || unlike(v, w.claim) {
			continue
		}
		if own {
			w.own = &candidate{name, v.Capacity, p.matcher(v)}
			return
		}
		if p.suits(o, w.claim) {
			w.candidates = append(w.candidates, candidate{name, v.Capacity, p.matcher(v)})
		}
	}
	slices.SortFunc(w.candidates, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.size, b.size), cmp.Compare(a.name, b.name))
	})
}

// unlike says that the volume is too small for the claim or of another kind or
// class: then it will not do even if it is set aside for it.
func unlike(v *facts.PersistentVolume, claim *facts.PersistentVolumeClaim) bool {
	return v.Capacity < claim.Request || v.Block != claim.Block || v.StorageClass != claim.StorageClass ||
		v.AttributesClass != claim.AttributesClass && !(storage.Empty(v.AttributesClass) && storage.Empty(claim.AttributesClass))
}

func (p *policy) suits(o *facts.Object, claim *facts.PersistentVolumeClaim) bool {
	v := o.Volume
	if v.Phase != facts.VolumeAvailable {
		return false
	}
	if claim.Selector.Present && !claim.Selector.Matches(p.rows.Symbols, o.Labels.Pairs) {
		return false
	}
	for _, mode := range claim.AccessModes {
		if !slices.Contains(v.AccessModes, mode) {
			return false
		}
	}
	return true
}

// boundTo says whether the volume is set aside for the claim.
func boundTo(v *facts.PersistentVolume, claim *facts.Object) bool {
	return !storage.Empty(v.ClaimName) && v.ClaimName == claim.Name && v.ClaimNamespace == claim.Namespace &&
		(storage.Empty(v.ClaimUID) || v.ClaimUID == claim.UID)
}

func (p *policy) FilterRows(slots []int32, verdicts []guest.ReasonID) {
	for i, slot := range slots {
		verdicts[i] = p.judge(slot)
	}
}

func (p *policy) judge(slot int32) guest.ReasonID {
	for _, m := range p.bound {
		if !m.Matches(slot) {
			return p.nodeConflict
		}
	}
	for i := range p.wishes {
		node := p.wishes[i].claim.SelectedNode
		if !storage.Empty(node) && node != p.rows.Name[slot] {
			return p.bindConflict
		}
	}
	p.chosen = p.chosen[:0]
	for i := range p.wishes {
		if reason := p.grant(&p.wishes[i], slot); reason != 0 {
			return reason
		}
	}
	if p.lost {
		return p.noFound
	}
	return 0
}

// grant finds a volume for a claim on the node, or sees that one can be made.
func (p *policy) grant(w *wish, slot int32) guest.ReasonID {
	if w.own != nil {
		if !p.choose(w.own, slot) {
			return p.canMake(&w.provision, slot)
		}
		return 0
	}
	for i := range w.candidates {
		if p.choose(&w.candidates[i], slot) {
			return 0
		}
	}
	return p.canMake(&w.provision, slot)
}

// choose takes a volume that the node can use and no other claim has taken.
func (p *policy) choose(c *candidate, slot int32) bool {
	if c.matcher != nil && !c.matcher.Matches(slot) || slices.Contains(p.chosen, c.name) {
		return false
	}
	p.chosen = append(p.chosen, c.name)
	return true
}
