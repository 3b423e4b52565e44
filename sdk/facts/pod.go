package facts

import "github.com/berth-dev/berth/sdk/internal/text"

// Pod is the pod of the cycle, or one that counts on a node. It is valid
// during the call that gives it; what is to stay must be copied. Only the
// groups that the policy reads are filled.
//
// UID, Name and Terminating come with group pods, and in gates: answers about
// replicas are remembered, so what tells replicas apart is kept from policies
// of scope row.
type Pod struct {
	syms *Symbols
	asks podAsks

	// Again says, of a pod that is told to a PodFollower, that it is like the
	// one told before by the same number Kept, which is less than abi.KeptPods:
	// what was derived of that holds for this one.
	Again bool
	Kept  uint8

	// Now is the cycle's time in nanoseconds since 1970; group time.
	Now int64

	UID, Name   Symbol
	Terminating bool

	// Group pod.labels.
	Namespace   Symbol
	Labels      Labels
	Owners      []Owner
	Annotations Labels

	// Group pod.requests. NonZero has Kubernetes' defaults (100m, 200 MiB) for
	// containers that ask for nothing, as scoring wants it.
	Requests   Amounts
	Scalars    []Scalar
	NonZero    Amounts
	BestEffort bool
	Priority   int32

	// Group pod.affinity.
	NodeName              Symbol
	NodeSelector          []Pair
	HasRequired           bool
	Required, Preferred   []NodeTerm
	Affinity              []PodTerm
	AntiAffinity          []PodTerm
	PreferredAffinity     []PodTerm
	PreferredAntiAffinity []PodTerm
	Spread                []SpreadConstraint

	Tolerations []Toleration
	Ports       []HostPort
	Volumes     []Volume

	// Group pod.images: normalised names of the images of containers, init
	// containers and image volumes; Containers counts the first two.
	Images     []Symbol
	Containers int32
}

// Label returns the value of a label, "" if there is none.
func (p *Pod) Label(key string) string { v, _ := p.Labels.Get(key); return v }

// Annotation returns the value of an annotation, "" if there is none.
func (p *Pod) Annotation(key string) string { v, _ := p.Annotations.Get(key); return v }

// NamespaceName is the pod's namespace.
//
//go:noinline
func (p *Pod) NamespaceName() string { return p.syms.String(p.Namespace) }

// Text is the string that a symbol of this pod stands for.
//
//go:noinline
func (p *Pod) Text(s Symbol) string { return p.syms.String(s) }

// Request is what the pod asks of a resource: milli-CPU for cpu, else bytes or
// a count.
func (p *Pod) Request(resource string) int64 {
	if e := &p.asks.table[text.Place(resource)]; e.place == text.Address(resource) {
		return e.value
	}
	return p.seek(resource)
}

// ScalarValue is the value under name, 0 if there is none.
func ScalarValue(scalars []Scalar, name Symbol) int64 {
	for i := range scalars {
		if scalars[i].Name == name {
			return scalars[i].Value
		}
	}
	return 0
}

// Tolerates says whether one of the pod's tolerations tolerates the taint.
//
//go:noinline
func (p *Pod) Tolerates(t Taint) bool { return Tolerated(p.syms, p.Tolerations, t) }

// Tolerated says whether one of tolerations tolerates the taint.
func Tolerated(syms *Symbols, tolerations []Toleration, t Taint) bool {
	for i := range tolerations {
		if tolerations[i].tolerates(syms, t) {
			return true
		}
	}
	return false
}

// tolerates follows v1.Toleration.ToleratesTaint: an empty key with Exists
// matches every taint.
func (t *Toleration) tolerates(syms *Symbols, taint Taint) bool {
	if t.Effect != NoEffect && t.Effect != taint.Effect {
		return false
	}
	if t.Key != EmptySymbol && t.Key != NoSymbol && t.Key != taint.Key {
		return false
	}
	switch t.Op {
	case TolerationExists:
		return true
	case TolerationEqual:
		return t.Value == taint.Value
	}
	want, ok := text.ParseInt(syms.String(t.Value))
	have, ok2 := text.ParseInt(syms.String(taint.Value))
	if !ok || !ok2 {
		return false
	}
	if t.Op == TolerationGt {
		return have > want
	}
	return have < want
}
