package sdk

import (
	"github.com/berth-dev/berth/abi/fb"
)

// decoder turns records into plain values. It keeps the readers of all tables,
// since one that is made anew for each row is garbage. A method as a value is
// garbage too, so empty lists are passed by before theirs is made. The pools are reused, so that a
// replica of a pod seen before costs no allocation; a slice that was handed
// out stays whole when its pool grows.
type decoder struct {
	syms  *Symbols
	reqs  []Requirement
	vals  []Symbol
	kv    fb.KV
	req   fb.Requirement
	term  fb.NodeTerm
	pterm fb.PodTerm
	sel   fb.LabelSelector
	nsSel fb.LabelSelector
	sc    fb.Scalar
	amt   fb.Amounts
	vol   fb.Volume
	port  fb.HostPort
	own   fb.Owner
	tol   fb.Toleration
	cond  fb.Condition
	image fb.Image

	// The groups of a row.
	usage      fb.Usage
	capacity   fb.Capacity
	labels     fb.Labels
	taints     fb.Taints
	conds      fb.Conditions
	rowPorts   fb.Ports
	rowVolumes fb.Volumes
	rowImages  fb.Images
}

// reset empties the pools: what they handed out is no longer valid.
func (d *decoder) reset() { d.reqs, d.vals = d.reqs[:0], d.vals[:0] }

func (d *decoder) amounts(a *fb.Amounts) Amounts {
	if a == nil {
		return Amounts{}
	}
	return Amounts{a.MilliCpu(), a.Memory(), a.EphemeralStorage(), a.Pods()}
}

// pod fills p in place from a record.
func (d *decoder) pod(p *Pod, r *fb.Pod) {
	d.reset()
	syms := d.syms
	p.syms = syms
	p.UID, p.Name, p.Terminating = syms.intern(r.Uid()), syms.intern(r.Name()), r.Terminating()
	p.Namespace = syms.intern(r.Namespace())
	d.podLabels(p, r)
	p.Requests = d.amounts(r.Requests(&d.amt))
	p.NonZero = d.amounts(r.NonZero(&d.amt))
	p.Scalars = p.Scalars[:0]
	if n := r.ScalarsLength(); n > 0 {
		p.Scalars = d.scalars(p.Scalars, n, r.Scalars)
	}
	p.BestEffort, p.Priority = r.BestEffort(), r.Priority()
	d.affinity(p, r)
	d.podLists(p, r)
	p.refetch()
}

func (d *decoder) podLabels(p *Pod, r *fb.Pod) {
	p.Labels = Labels{d.syms, p.Labels.Pairs[:0]}
	if n := r.LabelsLength(); n > 0 {
		p.Labels.Pairs = d.pairs(p.Labels.Pairs, n, r.Labels)
	}
	p.Annotations = Labels{d.syms, p.Annotations.Pairs[:0]}
	if n := r.AnnotationsLength(); n > 0 {
		p.Annotations.Pairs = d.pairs(p.Annotations.Pairs, n, r.Annotations)
	}
	p.Owners = p.Owners[:0]
	if n := r.OwnersLength(); n > 0 {
		p.Owners = d.owners(p.Owners, n, r.Owners)
	}
}

func (d *decoder) affinity(p *Pod, r *fb.Pod) {
	p.NodeName, p.HasRequired = d.syms.intern(r.NodeName()), r.HasRequired()
	p.NodeSelector, p.Required = p.NodeSelector[:0], p.Required[:0]
	if n := r.NodeSelectorLength(); n > 0 {
		p.NodeSelector = d.pairs(p.NodeSelector, n, r.NodeSelector)
	}
	if n := r.RequiredLength(); n > 0 {
		p.Required = d.nodeTerms(p.Required, n, r.Required)
	}
	p.Preferred = p.Preferred[:0]
	if n := r.PreferredLength(); n > 0 {
		p.Preferred = d.preferred(p.Preferred, n, r)
	}
	p.Affinity, p.AntiAffinity = p.Affinity[:0], p.AntiAffinity[:0]
	if n := r.AffinityLength(); n > 0 {
		p.Affinity = d.podTerms(p.Affinity, n, r.Affinity)
	}
	if n := r.AntiAffinityLength(); n > 0 {
		p.AntiAffinity = d.podTerms(p.AntiAffinity, n, r.AntiAffinity)
	}
	p.PreferredAffinity, p.PreferredAntiAffinity = p.PreferredAffinity[:0], p.PreferredAntiAffinity[:0]
	if n := r.PreferredAffinityLength(); n > 0 {
		p.PreferredAffinity = d.podTerms(p.PreferredAffinity, n, r.PreferredAffinity)
	}
	if n := r.PreferredAntiAffinityLength(); n > 0 {
		p.PreferredAntiAffinity = d.podTerms(p.PreferredAntiAffinity, n, r.PreferredAntiAffinity)
	}
	p.Spread = p.Spread[:0]
	if n := r.SpreadLength(); n > 0 {
		p.Spread = d.spread(p.Spread, n, r)
	}
}

func (d *decoder) preferred(dst []NodeTerm, n int, r *fb.Pod) []NodeTerm {
	var preferred fb.PreferredNodeTerm
	for i := 0; i < n; i++ {
		r.Preferred(&preferred, i)
		var t NodeTerm
		if preferred.Term(&d.term) != nil {
			t = d.nodeTerm(&d.term)
		}
		t.Weight = preferred.Weight()
		dst = append(dst, t)
	}
	return dst
}

func (d *decoder) spread(dst []SpreadConstraint, n int, r *fb.Pod) []SpreadConstraint {
	var c fb.SpreadConstraint
	for i := 0; i < n; i++ {
		r.Spread(&c, i)
		dst = append(dst, SpreadConstraint{
			MaxSkew: c.MaxSkew(), MinDomains: c.MinDomains(), TopologyKey: d.syms.intern(c.TopologyKey()),
			Soft:          c.WhenUnsatisfiable() == fb.UnsatisfiableScheduleAnyway,
			HonorAffinity: c.NodeAffinity() == fb.InclusionHonor, HonorTaints: c.NodeTaints() == fb.InclusionHonor,
			Selector: d.selector(c.Selector(&d.sel)),
		})
	}
	return dst
}

func (d *decoder) podLists(p *Pod, r *fb.Pod) {
	p.Tolerations = p.Tolerations[:0]
	t := &d.tol
	for i, n := 0, r.TolerationsLength(); i < n; i++ {
		r.Tolerations(t, i)
		p.Tolerations = append(p.Tolerations, Toleration{
			Key: d.syms.intern(t.Key()), Value: d.syms.intern(t.Value()),
			Op: TolerationOp(t.Op()), Effect: Effect(t.Effect()),
		})
	}
	p.Ports, p.Volumes = p.Ports[:0], p.Volumes[:0]
	if n := r.PortsLength(); n > 0 {
		p.Ports = d.ports(p.Ports, n, r.Ports)
	}
	if n := r.VolumesLength(); n > 0 {
		p.Volumes = d.volumes(p.Volumes, n, r.Volumes)
	}
	p.Images = p.Images[:0]
	for i, n := 0, r.ImagesLength(); i < n; i++ {
		p.Images = append(p.Images, d.syms.intern(r.Images(i)))
	}
	p.Containers = r.Containers()
}

// labelPairs reads a row's labels or annotations.
func (d *decoder) labelPairs(dst []Pair, l *fb.Labels) []Pair {
	for i, n := 0, l.ItemsLength(); i < n; i++ {
		l.Items(&d.kv, i)
		dst = append(dst, Pair{d.syms.intern(d.kv.Key()), d.syms.intern(d.kv.Value())})
	}
	return dst
}

// rowConditions reads d.conds.
func (d *decoder) rowConditions(dst []Condition) []Condition {
	c := &d.cond
	for i, n := 0, d.conds.ItemsLength(); i < n; i++ {
		d.conds.Items(c, i)
		dst = append(dst, Condition{d.syms.intern(c.Type()), ConditionStatus(c.Status()), c.Since()})
	}
	return dst
}

func (d *decoder) pairs(dst []Pair, n int, at func(*fb.KV, int) bool) []Pair {
	for i := 0; i < n; i++ {
		at(&d.kv, i)
		dst = append(dst, Pair{d.syms.intern(d.kv.Key()), d.syms.intern(d.kv.Value())})
	}
	return dst
}

func (d *decoder) owners(dst []Owner, n int, at func(*fb.Owner, int) bool) []Owner {
	for i := 0; i < n; i++ {
		at(&d.own, i)
		o := &d.own
		dst = append(dst, Owner{
			APIVersion: d.syms.intern(o.ApiVersion()), Kind: d.syms.intern(o.Kind()),
			Name: d.syms.intern(o.Name()), UID: d.syms.intern(o.Uid()), Controller: o.Controller(),
		})
	}
	return dst
}

func (d *decoder) scalars(dst []Scalar, n int, at func(*fb.Scalar, int) bool) []Scalar {
	for i := 0; i < n; i++ {
		at(&d.sc, i)
		dst = append(dst, Scalar{d.syms.intern(d.sc.Name()), d.sc.Value()})
	}
	return dst
}

func (d *decoder) ports(dst []HostPort, n int, at func(*fb.HostPort, int) bool) []HostPort {
	for i := 0; i < n; i++ {
		at(&d.port, i)
		dst = append(dst, HostPort{d.syms.intern(d.port.Ip()), d.syms.intern(d.port.Protocol()), d.port.Port()})
	}
	return dst
}

func (d *decoder) volumes(dst []Volume, n int, at func(*fb.Volume, int) bool) []Volume {
	for i := 0; i < n; i++ {
		at(&d.vol, i)
		dst = append(dst, d.volume(&d.vol))
	}
	return dst
}

func (d *decoder) volume(v *fb.Volume) Volume {
	out := Volume{
		Kind: VolumeKind(v.Kind()), Name: d.syms.intern(v.Name()), ID: d.syms.intern(v.Id()),
		Pool: d.syms.intern(v.Pool()), ReadOnly: v.ReadOnly(), Ephemeral: v.Ephemeral(),
		Namespace: d.syms.intern(v.Namespace()), Uses: v.Uses(),
	}
	if n := v.MonitorsLength(); n > 0 {
		out.Monitors = make([]Symbol, n)
		for i := range out.Monitors {
			out.Monitors[i] = d.syms.intern(v.Monitors(i))
		}
	}
	return out
}

func (d *decoder) symbols(n int, at func(int) []byte) []Symbol {
	start := len(d.vals)
	for i := 0; i < n; i++ {
		d.vals = append(d.vals, d.syms.intern(at(i)))
	}
	return d.vals[start:len(d.vals):len(d.vals)]
}

func (d *decoder) requirements(n int, at func(*fb.Requirement, int) bool) []Requirement {
	start := len(d.reqs)
	for i := 0; i < n; i++ {
		at(&d.req, i)
		d.reqs = append(d.reqs, Requirement{
			Key: d.syms.intern(d.req.Key()), Op: Op(d.req.Op()),
			Values: d.symbols(d.req.ValuesLength(), d.req.Values),
		})
	}
	return d.reqs[start:len(d.reqs):len(d.reqs)]
}

func (d *decoder) selector(s *fb.LabelSelector) Selector {
	if s == nil {
		return Selector{}
	}
	return Selector{Present: true, Reqs: d.requirements(s.RequirementsLength(), s.Requirements)}
}

func (d *decoder) nodeTerms(dst []NodeTerm, n int, at func(*fb.NodeTerm, int) bool) []NodeTerm {
	for i := 0; i < n; i++ {
		at(&d.term, i)
		dst = append(dst, d.nodeTerm(&d.term))
	}
	return dst
}

func (d *decoder) nodeTerm(t *fb.NodeTerm) NodeTerm {
	return NodeTerm{
		Labels: d.requirements(t.ExpressionsLength(), t.Expressions),
		Names:  d.requirements(t.FieldsLength(), t.Fields),
	}
}

func (d *decoder) podTerms(dst []PodTerm, n int, at func(*fb.PodTerm, int) bool) []PodTerm {
	for i := 0; i < n; i++ {
		at(&d.pterm, i)
		t := &d.pterm
		dst = append(dst, PodTerm{
			Selector:          d.selector(t.Selector(&d.sel)),
			Namespaces:        d.symbols(t.NamespacesLength(), t.Namespaces),
			NamespaceSelector: d.selector(t.NamespaceSelector(&d.nsSel)),
			TopologyKey:       d.syms.intern(t.TopologyKey()), Weight: t.Weight(),
		})
	}
	return dst
}

func (d *decoder) conditions(dst []Condition, n int, at func(*fb.Condition, int) bool) []Condition {
	var c fb.Condition
	for i := 0; i < n; i++ {
		at(&c, i)
		dst = append(dst, Condition{d.syms.intern(c.Type()), ConditionStatus(c.Status()), c.Since()})
	}
	return dst
}

// images reads d.rowImages.
func (d *decoder) images(dst []Image) []Image {
	im := &d.image
	for i, n := 0, d.rowImages.ItemsLength(); i < n; i++ {
		d.rowImages.Items(im, i)
		dst = append(dst, Image{d.syms.intern(im.Name()), im.Size()})
	}
	return dst
}
