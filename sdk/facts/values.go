package facts

// Amounts are integers by Kubernetes' rules: milli-CPU, bytes, counts.
type Amounts struct {
	MilliCPU, Memory, EphemeralStorage, Pods int64
}

// Scalar is an extended resource or a size of huge pages.
type Scalar struct {
	Name  Symbol
	Value int64
}

// Pair is one label or annotation.
type Pair struct{ Key, Value Symbol }

// Labels are the labels, or annotations, of one object.
type Labels struct {
	syms  *Symbols
	Pairs []Pair
}

// MakeLabels are labels whose symbols are of syms.
func MakeLabels(syms *Symbols, pairs []Pair) Labels { return Labels{syms, pairs} }

// Value is the symbol that stands under key, NoSymbol if there is none.
func (l Labels) Value(key Symbol) Symbol {
	for i := range l.Pairs {
		if l.Pairs[i].Key == key {
			return l.Pairs[i].Value
		}
	}
	return NoSymbol
}

// ValueOf is Value by text.
func (l Labels) ValueOf(key string) Symbol {
	if len(l.Pairs) == 0 {
		return NoSymbol
	}
	sym := l.syms.Lookup(key)
	if sym == NoSymbol {
		return NoSymbol
	}
	return l.Value(sym)
}

// Get returns what stands under key, and whether anything does.
//
//go:noinline
func (l Labels) Get(key string) (string, bool) {
	v := l.ValueOf(key)
	if v == NoSymbol {
		return "", false
	}
	return l.syms.String(v), true
}

// Len is how many there are.
func (l Labels) Len() int { return len(l.Pairs) }

// At returns the i-th, in the order of the keys.
//
//go:noinline
func (l Labels) At(i int) (key, value string) {
	return l.syms.String(l.Pairs[i].Key), l.syms.String(l.Pairs[i].Value)
}

// Op is how a requirement compares.
type Op uint8

const (
	In Op = iota
	NotIn
	Exists
	DoesNotExist
	Gt
	Lt
)

// Requirement is one condition on a label.
type Requirement struct {
	Key    Symbol
	Op     Op
	Values []Symbol
}

// Selector is a label selector: all its requirements must hold. The zero
// Selector is absent and matches nothing.
type Selector struct {
	Present bool
	Reqs    []Requirement
}

// NodeTerm is one term of node affinity. One without requirements matches nothing.
type NodeTerm struct {
	Weight int32
	// Labels are its matchExpressions, Names its matchFields on metadata.name.
	Labels, Names []Requirement
}

// PodTerm is one term of pod affinity or anti-affinity.
type PodTerm struct {
	Selector          Selector
	Namespaces        []Symbol
	NamespaceSelector Selector
	TopologyKey       Symbol
	Weight            int32
}

// SpreadConstraint is one topology spread constraint.
type SpreadConstraint struct {
	MaxSkew, MinDomains int32
	TopologyKey         Symbol
	// Soft is whenUnsatisfiable: ScheduleAnyway.
	Soft bool
	// HonorAffinity and HonorTaints leave out the nodes that the pod's node
	// affinity, or taints that it does not tolerate, keep it off.
	HonorAffinity, HonorTaints bool
	Selector                   Selector
}

// Effect is what a taint does.
type Effect uint8

const (
	NoEffect Effect = iota
	NoSchedule
	PreferNoSchedule
	NoExecute
)

// Taint is one taint of a node.
type Taint struct {
	Key, Value Symbol
	Effect     Effect
}

// TolerationOp is how a toleration compares.
type TolerationOp uint8

const (
	TolerationEqual TolerationOp = iota
	TolerationExists
	TolerationGt
	TolerationLt
)

// Toleration is one toleration of a pod. NoEffect tolerates all effects.
type Toleration struct {
	Key, Value Symbol
	Op         TolerationOp
	Effect     Effect
}

// HostPort is a port on the node itself.
type HostPort struct {
	IP, Protocol Symbol
	Port         int32
}

// VolumeKind says what a volume is.
type VolumeKind uint8

const (
	VolumeOther VolumeKind = iota
	VolumeClaim
	VolumeGCEPersistentDisk
	VolumeAWSElasticBlockStore
	VolumeAzureDisk
	VolumeISCSI
	VolumeRBD
	VolumeCSI
	VolumeImage
)

// Volume is one volume of a pod, or one that a node's pods hold.
type Volume struct {
	Kind VolumeKind
	// ID is the claim's name, the disk's name or id, the iSCSI name, the RBD
	// image or the CSI driver, by kind.
	Name, ID, Pool Symbol
	Monitors       []Symbol
	ReadOnly       bool
	// Ephemeral: the claim is made for this pod alone.
	Ephemeral bool
	// In a row: the namespace of the pods that hold it, and how many do.
	Namespace Symbol
	Uses      int32
}

// Owner is one owner reference.
type Owner struct {
	APIVersion, Kind, Name, UID Symbol
	Controller                  bool
}

// ConditionStatus is the status of a condition.
type ConditionStatus uint8

const (
	Absent ConditionStatus = iota
	True
	False
	Unknown
)

func (s ConditionStatus) String() string {
	return [...]string{"", "True", "False", "Unknown"}[s&3]
}

// Condition is one condition of a node or a pod.
type Condition struct {
	Type   Symbol
	Status ConditionStatus
	// Since is when it last changed: nanoseconds since 1970, 0 if unknown.
	Since int64
}

// Image is one image that a node has.
type Image struct {
	Name Symbol
	Size int64
}

// ConditionOf returns the status of a condition in a list.
func ConditionOf(conditions []Condition, name Symbol) ConditionStatus {
	for i := range conditions {
		if conditions[i].Type == name {
			return conditions[i].Status
		}
	}
	return Absent
}
