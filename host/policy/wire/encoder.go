package wire

import (
	"encoding/binary"
	"slices"
	"sort"

	flatbuffers "github.com/google/flatbuffers/go"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/abi/fb"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

type offset = flatbuffers.UOffsetT

// Encoder writes records.
//
// It is large because the schema has that many tables, and each is written by a
// method of its own.
type Encoder struct {
	b *flatbuffers.Builder
	// offs is a stack of the children of vectors under construction.
	offs []offset
	keys []string
	rows []byte
	// slots is what Expect was told.
	slots int32
	// alike is what Begin was told; asked is the pod sent last in a PodInput, and
	// told are those that the guest keeps.
	alike bool
	asked like
	told  keptPods
	// common is what the objects of a controller's question have in common.
	common common
}

// like is what a policy that takes equal pods for the same pod knows one by.
type like struct {
	hash              uint64
	terminating, sent bool
}

// keptPods are those that the guest keeps of those it was told of, each at its
// place, and the place that is used next. Pods of a few kinds in a few zones, which
// come by turns, are told of once each.
type keptPods struct {
	pods [abi.KeptPods]like
	next uint8
}

// place is where a pod is kept, and whether the guest has it there.
func (k *keptPods) place(pod like) (at uint8, has bool) {
	if i := slices.Index(k.pods[:], pod); i >= 0 {
		return uint8(i), true
	}
	at = k.next
	k.pods[at], k.next = pod, (at+1)%abi.KeptPods
	return at, false
}

// Begin starts anew with a guest that has been sent nothing. alike is its
// policy's word: equal pods are the same pod.
func (e *Encoder) Begin(alike bool) { e.alike, e.asked, e.told = alike, like{}, keptPods{} }

func likeOf(pod *snapshot.Pod, reads abi.Groups) like {
	return like{pod.HashOf(reads), reads&abi.Pods != 0 && pod.Object.DeletionTimestamp != nil, true}
}

// askedBefore says that a pod is like that of the PodInput before, and notes it.
func (e *Encoder) askedBefore(pod *snapshot.Pod, reads abi.Groups) bool {
	if !e.alike {
		return false
	}
	now := likeOf(pod, reads)
	same := e.asked == now
	e.asked = now
	return same
}

// NewEncoder makes an Encoder.
func NewEncoder() *Encoder { return &Encoder{b: flatbuffers.NewBuilder(4 << 10)} }

func (e *Encoder) reset() *flatbuffers.Builder {
	e.b.Reset()
	e.offs = e.offs[:0]
	return e.b
}

func (e *Encoder) finish(root offset) []byte {
	e.b.Finish(root)
	return e.b.FinishedBytes()
}

// Rows packs slots for berth_filter and berth_score.
func (e *Encoder) Rows(slots []int32) []byte {
	e.rows = AppendRows(e.rows[:0], slots)
	return e.rows
}

// AppendRows packs slots behind dst.
func AppendRows(dst []byte, slots []int32) []byte {
	for _, s := range slots {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(s))
	}
	return dst
}

// push puts a child aside; vector takes all those since mark. A vector
// without items is left out: 0.
func (e *Encoder) push(o offset) { e.offs = append(e.offs, o) }

func (e *Encoder) vector(mark int) offset {
	n := len(e.offs) - mark
	if n == 0 {
		return 0
	}
	e.b.StartVector(flatbuffers.SizeUOffsetT, n, flatbuffers.SizeUOffsetT)
	for i := len(e.offs) - 1; i >= mark; i-- {
		e.b.PrependUOffsetT(e.offs[i])
	}
	e.offs = e.offs[:mark]
	return e.b.EndVector(n)
}

// str leaves an empty text out: 0.
func (e *Encoder) str(s string) offset {
	if s == "" {
		return 0
	}
	return e.b.CreateString(s)
}

func (e *Encoder) strs(list []string) offset {
	mark := len(e.offs)
	for _, s := range list {
		e.push(e.b.CreateString(s))
	}
	return e.vector(mark)
}

func (e *Encoder) kv(key, value string) offset {
	k, v := e.b.CreateString(key), e.str(value)
	fb.KVStart(e.b)
	fb.KVAddKey(e.b, k)
	if v != 0 {
		fb.KVAddValue(e.b, v)
	}
	return fb.KVEnd(e.b)
}

func (e *Encoder) sortedKeys(m map[string]string) []string {
	e.keys = e.keys[:0]
	for k := range m {
		e.keys = append(e.keys, k)
	}
	sort.Strings(e.keys)
	return e.keys
}

func (e *Encoder) kvs(m map[string]string) offset {
	mark := len(e.offs)
	for _, k := range e.sortedKeys(m) {
		e.push(e.kv(k, m[k]))
	}
	return e.vector(mark)
}

func (e *Encoder) scalars(list []snapshot.Scalar) offset {
	mark := len(e.offs)
	for i := range list {
		name := e.b.CreateString(list[i].Name)
		fb.ScalarStart(e.b)
		fb.ScalarAddName(e.b, name)
		fb.ScalarAddValue(e.b, list[i].Value)
		e.push(fb.ScalarEnd(e.b))
	}
	return e.vector(mark)
}

// amounts must be called between the start and the end of the table that holds them.
func (e *Encoder) amounts(r *snapshot.Resources) offset {
	return fb.CreateAmounts(e.b, r.MilliCPU, r.Memory, r.EphemeralStorage, r.Pods)
}

func (e *Encoder) requirement(key string, op fb.Op, values []string) offset {
	k, v := e.b.CreateString(key), e.strs(values)
	fb.RequirementStart(e.b)
	fb.RequirementAddKey(e.b, k)
	fb.RequirementAddOp(e.b, op)
	if v != 0 {
		fb.RequirementAddValues(e.b, v)
	}
	return fb.RequirementEnd(e.b)
}

// selector writes a label selector; a nil one is left out: 0. More are
// requirements beyond the selector's own.
func (e *Encoder) selector(s *metav1.LabelSelector, more func()) offset {
	if s == nil {
		return 0
	}
	mark := len(e.offs)
	e.equals(s.MatchLabels)
	for i := range s.MatchExpressions {
		x := &s.MatchExpressions[i]
		e.push(e.requirement(x.Key, labelOp(x.Operator), x.Values))
	}
	if more != nil {
		more()
	}
	return e.endSelector(mark)
}

// equals pushes one requirement for each pair.
func (e *Encoder) equals(m map[string]string) {
	for _, k := range e.sortedKeys(m) {
		e.push(e.requirement(k, fb.OpIn, []string{m[k]}))
	}
}

func (e *Encoder) endSelector(mark int) offset {
	reqs := e.vector(mark)
	fb.LabelSelectorStart(e.b)
	if reqs != 0 {
		fb.LabelSelectorAddRequirements(e.b, reqs)
	}
	return fb.LabelSelectorEnd(e.b)
}

// mapSelector writes the selector of a service or a replication controller.
func (e *Encoder) mapSelector(m map[string]string) offset {
	if m == nil {
		return 0
	}
	mark := len(e.offs)
	e.equals(m)
	return e.endSelector(mark)
}

func labelOp(op metav1.LabelSelectorOperator) fb.Op {
	return nodeOp(v1.NodeSelectorOperator(op))
}

func nodeOp(op v1.NodeSelectorOperator) fb.Op {
	switch op {
	case v1.NodeSelectorOpNotIn:
		return fb.OpNotIn
	case v1.NodeSelectorOpExists:
		return fb.OpExists
	case v1.NodeSelectorOpDoesNotExist:
		return fb.OpDoesNotExist
	case v1.NodeSelectorOpGt:
		return fb.OpGt
	case v1.NodeSelectorOpLt:
		return fb.OpLt
	}
	return fb.OpIn
}

func effect(e v1.TaintEffect) fb.Effect {
	switch e {
	case v1.TaintEffectNoSchedule:
		return fb.EffectNoSchedule
	case v1.TaintEffectPreferNoSchedule:
		return fb.EffectPreferNoSchedule
	case v1.TaintEffectNoExecute:
		return fb.EffectNoExecute
	}
	return fb.EffectNone
}

func status(s string) fb.ConditionStatus {
	switch s {
	case string(v1.ConditionTrue):
		return fb.ConditionStatusTrue
	case string(v1.ConditionFalse):
		return fb.ConditionStatusFalse
	case string(v1.ConditionUnknown):
		return fb.ConditionStatusUnknown
	}
	return fb.ConditionStatusAbsent
}

func nanos(t metav1.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}
