package facts

import (
	"github.com/berth-dev/berth/abi/fb"
)

// Decoder turns records into plain values. It keeps the readers of all tables,
// since one that is made anew for each row is garbage. A method as a value is
// garbage too, so empty lists are passed by before theirs is made. The pools are reused, so that a
// replica of a pod seen before costs no allocation; a slice that was handed
// out stays whole when its pool grows.
type Decoder struct {
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
}

// reset empties the pools: what they handed out is no longer valid.
func (d *Decoder) reset() { d.reqs, d.vals = d.reqs[:0], d.vals[:0] }

// NewDecoder is a decoder that interns in syms.
func NewDecoder(syms *Symbols) *Decoder { return &Decoder{syms: syms} }

// ReadAmounts are a record's amounts; none are 0.
func ReadAmounts(a *fb.Amounts) Amounts {
	if a == nil {
		return Amounts{}
	}
	return Amounts{a.MilliCpu(), a.Memory(), a.EphemeralStorage(), a.Pods()}
}

// Empty makes p a pod that was not told yet.
func (d *Decoder) Empty(p *Pod) { p.syms = d.syms }

// Pod fills p in place from a record.
func (d *Decoder) Pod(p *Pod, r *fb.Pod) {
	d.reset()
	syms := d.syms
	p.syms = syms
	p.UID, p.Name, p.Terminating = syms.InternBytes(r.Uid()), syms.InternBytes(r.Name()), r.Terminating()
	p.Namespace = syms.InternBytes(r.Namespace())
	d.podLabels(p, r)
	p.Requests = ReadAmounts(r.Requests(&d.amt))
	p.NonZero = ReadAmounts(r.NonZero(&d.amt))
	p.Scalars = p.Scalars[:0]
	if n := r.ScalarsLength(); n > 0 {
		p.Scalars = d.Scalars(p.Scalars, n, r.Scalars)
	}
	p.BestEffort, p.Priority = r.BestEffort(), r.Priority()
	d.affinity(p, r)
	d.podLists(p, r)
	p.refetch()
}

func (d *Decoder) podLabels(p *Pod, r *fb.Pod) {
	p.Labels = Labels{d.syms, p.Labels.Pairs[:0]}
	if n := r.LabelsLength(); n > 0 {
		p.Labels.Pairs = d.Pairs(p.Labels.Pairs, n, r.Labels)
	}
	p.Annotations = Labels{d.syms, p.Annotations.Pairs[:0]}
	if n := r.AnnotationsLength(); n > 0 {
		p.Annotations.Pairs = d.Pairs(p.Annotations.Pairs, n, r.Annotations)
	}
	p.Owners = p.Owners[:0]
	if n := r.OwnersLength(); n > 0 {
		p.Owners = d.Owners(p.Owners, n, r.Owners)
	}
}

func (d *Decoder) affinity(p *Pod, r *fb.Pod) {
	p.NodeName, p.HasRequired = d.syms.InternBytes(r.NodeName()), r.HasRequired()
	p.NodeSelector, p.Required = p.NodeSelector[:0], p.Required[:0]
	if n := r.NodeSelectorLength(); n > 0 {
		p.NodeSelector = d.Pairs(p.NodeSelector, n, r.NodeSelector)
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

func (d *Decoder) preferred(dst []NodeTerm, n int, r *fb.Pod) []NodeTerm {
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

func (d *Decoder) spread(dst []SpreadConstraint, n int, r *fb.Pod) []SpreadConstraint {
	var c fb.SpreadConstraint
	for i := 0; i < n; i++ {
		r.Spread(&c, i)
		dst = append(dst, SpreadConstraint{
			MaxSkew: c.MaxSkew(), MinDomains: c.MinDomains(), TopologyKey: d.syms.InternBytes(c.TopologyKey()),
			Soft:          c.WhenUnsatisfiable() == fb.UnsatisfiableScheduleAnyway,
			HonorAffinity: c.NodeAffinity() == fb.InclusionHonor, HonorTaints: c.NodeTaints() == fb.InclusionHonor,
			Selector: d.selector(c.Selector(&d.sel)),
		})
	}
	return dst
}

func (d *Decoder) podLists(p *Pod, r *fb.Pod) {
	p.Tolerations = p.Tolerations[:0]
	t := &d.tol
	for i, n := 0, r.TolerationsLength(); i < n; i++ {
		r.Tolerations(t, i)
		p.Tolerations = append(p.Tolerations, Toleration{
			Key: d.syms.InternBytes(t.Key()), Value: d.syms.InternBytes(t.Value()),
			Op: TolerationOp(t.Op()), Effect: Effect(t.Effect()),
		})
	}
	p.Ports, p.Volumes = p.Ports[:0], p.Volumes[:0]
	if n := r.PortsLength(); n > 0 {
		p.Ports = d.Ports(p.Ports, n, r.Ports)
	}
	if n := r.VolumesLength(); n > 0 {
		p.Volumes = d.Volumes(p.Volumes, n, r.Volumes)
	}
	p.Images = p.Images[:0]
	for i, n := 0, r.ImagesLength(); i < n; i++ {
		p.Images = append(p.Images, d.syms.InternBytes(r.Images(i)))
	}
	p.Containers = r.Containers()
}

// Pairs appends labels or annotations to dst.
func (d *Decoder) Pairs(dst []Pair, n int, at func(*fb.KV, int) bool) []Pair {
	for i := 0; i < n; i++ {
		at(&d.kv, i)
		dst = append(dst, Pair{d.syms.InternBytes(d.kv.Key()), d.syms.InternBytes(d.kv.Value())})
	}
	return dst
}

// Owners appends owner references to dst.
func (d *Decoder) Owners(dst []Owner, n int, at func(*fb.Owner, int) bool) []Owner {
	for i := 0; i < n; i++ {
		at(&d.own, i)
		o := &d.own
		dst = append(dst, Owner{
			APIVersion: d.syms.InternBytes(o.ApiVersion()), Kind: d.syms.InternBytes(o.Kind()),
			Name: d.syms.InternBytes(o.Name()), UID: d.syms.InternBytes(o.Uid()), Controller: o.Controller(),
		})
	}
	return dst
}

// Scalars appends extended resources to dst.
func (d *Decoder) Scalars(dst []Scalar, n int, at func(*fb.Scalar, int) bool) []Scalar {
	for i := 0; i < n; i++ {
		at(&d.sc, i)
		dst = append(dst, Scalar{d.syms.InternBytes(d.sc.Name()), d.sc.Value()})
	}
	return dst
}

// Ports appends ports of nodes to dst.
func (d *Decoder) Ports(dst []HostPort, n int, at func(*fb.HostPort, int) bool) []HostPort {
	for i := 0; i < n; i++ {
		at(&d.port, i)
		dst = append(dst, HostPort{d.syms.InternBytes(d.port.Ip()), d.syms.InternBytes(d.port.Protocol()), d.port.Port()})
	}
	return dst
}

// Volumes appends volumes to dst.
func (d *Decoder) Volumes(dst []Volume, n int, at func(*fb.Volume, int) bool) []Volume {
	for i := 0; i < n; i++ {
		at(&d.vol, i)
		dst = append(dst, d.volume(&d.vol))
	}
	return dst
}

func (d *Decoder) volume(v *fb.Volume) Volume {
	out := Volume{
		Kind: VolumeKind(v.Kind()), Name: d.syms.InternBytes(v.Name()), ID: d.syms.InternBytes(v.Id()),
		Pool: d.syms.InternBytes(v.Pool()), ReadOnly: v.ReadOnly(), Ephemeral: v.Ephemeral(),
		Namespace: d.syms.InternBytes(v.Namespace()), Uses: v.Uses(),
	}
	if n := v.MonitorsLength(); n > 0 {
		out.Monitors = make([]Symbol, n)
		for i := range out.Monitors {
			out.Monitors[i] = d.syms.InternBytes(v.Monitors(i))
		}
	}
	return out
}

func (d *Decoder) symbols(n int, at func(int) []byte) []Symbol {
	start := len(d.vals)
	for i := 0; i < n; i++ {
		d.vals = append(d.vals, d.syms.InternBytes(at(i)))
	}
	return d.vals[start:len(d.vals):len(d.vals)]
}

func (d *Decoder) requirements(n int, at func(*fb.Requirement, int) bool) []Requirement {
	start := len(d.reqs)
	for i := 0; i < n; i++ {
		at(&d.req, i)
		d.reqs = append(d.reqs, Requirement{
			Key: d.syms.InternBytes(d.req.Key()), Op: Op(d.req.Op()),
			Values: d.symbols(d.req.ValuesLength(), d.req.Values),
		})
	}
	return d.reqs[start:len(d.reqs):len(d.reqs)]
}

func (d *Decoder) selector(s *fb.LabelSelector) Selector {
	if s == nil {
		return Selector{}
	}
	return Selector{Present: true, Reqs: d.requirements(s.RequirementsLength(), s.Requirements)}
}

func (d *Decoder) nodeTerms(dst []NodeTerm, n int, at func(*fb.NodeTerm, int) bool) []NodeTerm {
	for i := 0; i < n; i++ {
		at(&d.term, i)
		dst = append(dst, d.nodeTerm(&d.term))
	}
	return dst
}

func (d *Decoder) nodeTerm(t *fb.NodeTerm) NodeTerm {
	return NodeTerm{
		Labels: d.requirements(t.ExpressionsLength(), t.Expressions),
		Names:  d.requirements(t.FieldsLength(), t.Fields),
	}
}

func (d *Decoder) podTerms(dst []PodTerm, n int, at func(*fb.PodTerm, int) bool) []PodTerm {
	for i := 0; i < n; i++ {
		at(&d.pterm, i)
		t := &d.pterm
		dst = append(dst, PodTerm{
			Selector:          d.selector(t.Selector(&d.sel)),
			Namespaces:        d.symbols(t.NamespacesLength(), t.Namespaces),
			NamespaceSelector: d.selector(t.NamespaceSelector(&d.nsSel)),
			TopologyKey:       d.syms.InternBytes(t.TopologyKey()), Weight: t.Weight(),
		})
	}
	return dst
}

// Conditions appends conditions to dst.
func (d *Decoder) Conditions(dst []Condition, n int, at func(*fb.Condition, int) bool) []Condition {
	var c fb.Condition
	for i := 0; i < n; i++ {
		at(&c, i)
		dst = append(dst, Condition{d.syms.InternBytes(c.Type()), ConditionStatus(c.Status()), c.Since()})
	}
	return dst
}
