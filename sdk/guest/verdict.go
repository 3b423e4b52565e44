package guest

import (
	"unsafe"

	"github.com/berth-dev/berth/abi"
)

// Verdict is what a predicate says of a pod and a node: Admit, Reject or
// RejectFinal.
type Verdict struct {
	reason string
	final  bool
}

// Admit lets the pod onto the node.
var Admit = Verdict{}

// Reject keeps the pod off the node. Removing other pods from the node might
// help. The reason stands in events and in `berth explain`; keep to few
// distinct ones (at most 254 an instance), without names and numbers.
func Reject(reason string) Verdict { return Verdict{reason: orUnnamed(reason)} }

// RejectFinal keeps the pod off the node, and removing other pods from it
// would not help: preemption leaves such nodes alone.
func RejectFinal(reason string) Verdict { return Verdict{reason: orUnnamed(reason), final: true} }

func orUnnamed(reason string) string {
	if reason == "" {
		return "refused without a reason"
	}
	if len(reason) > abi.MaxReason {
		return reason[:abi.MaxReason]
	}
	return reason
}

// Admitted says whether the verdict lets the pod onto the node.
func (v Verdict) Admitted() bool { return v.reason == "" }

// Reason is why not; empty if admitted.
func (v Verdict) Reason() string { return v.reason }

// Final says whether removing pods from the node would not help.
func (v Verdict) Final() bool { return v.final }

// ReasonID is a place in the instance's table of reasons; 0 admits.
type ReasonID = uint8

// Reasons is an instance's table of reasons. It only grows, up to 255 entries;
// the last stands for all that came later.
type Reasons struct {
	table []Verdict
	last  Verdict
	id    ReasonID
}

func newReasons() *Reasons { return &Reasons{table: make([]Verdict, 1, 8)} }

// ID returns the reason's place, a new one if need be.
//
//go:noinline
func (r *Reasons) ID(v Verdict) ReasonID {
	if v.reason == "" {
		return 0
	}
	if v.final == r.last.final && len(v.reason) == len(r.last.reason) &&
		unsafe.StringData(v.reason) == unsafe.StringData(r.last.reason) {
		return r.id
	}
	r.last, r.id = v, r.search(v)
	return r.id
}

func (r *Reasons) search(v Verdict) ReasonID {
	for i := 1; i < len(r.table); i++ {
		if r.table[i] == v {
			return ReasonID(i)
		}
	}
	if len(r.table) == abi.MaxReasons {
		v = Verdict{reason: "further reasons (the policy has more than 254)", final: v.final}
	}
	if len(r.table) > abi.MaxReasons {
		return abi.MaxReasons
	}
	v.reason = string(append([]byte(nil), v.reason...))
	r.table = append(r.table, v)
	return ReasonID(len(r.table) - 1)
}

// Get returns the verdict at a place.
func (r *Reasons) Get(id ReasonID) Verdict { return r.table[id] }

// Answer is what a policy says of a pod before any row is asked.
type Answer struct {
	ask    abi.Ask
	reason ReasonID
}

// AskRows: the rows decide.
var AskRows = Answer{ask: abi.AskRows}

// Skip: a predicate admits all rows, a priority scores none.
var Skip = Answer{ask: abi.AskSkip}

// Refuse: no row can take the pod.
func Refuse(reason ReasonID) Answer { return Answer{ask: abi.AskRefuse, reason: reason} }

// Packed is the answer as berth_pod gives it.
func (a Answer) Packed() uint64 { return uint64(a.ask) | uint64(a.reason)<<8 }
