package kind

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
	"sync/atomic"

	"github.com/berth-dev/berth/host/store"

	v1 "k8s.io/api/core/v1"
)

// Replicas differ in their names and in what becomes of them; their labels,
// containers and tolerations are alike, and are more than half of what a pod
// takes in memory. So pods whose encodings of such a part are equal share one:
// stored objects are never changed. A part that is known is not even decoded.
//
// The tables have a fixed size, in which the newest takes the place of another,
// so they need no bookkeeping, and forget.
type parts[T any] [1 << 11]atomic.Pointer[part[T]]

type part[T any] struct {
	data  string
	value T
}

var (
	partSeed        = maphash.MakeSeed()
	sameLabels      parts[map[string]string]
	sameContainers  parts[[]v1.Container]
	sameTolerations parts[[]v1.Toleration]
	sameResources   parts[v1.ResourceRequirements]
	sameAmounts     parts[v1.ResourceList]
)

// Numbers of fields in v1's messages.
const (
	metaOfPod, specOfPod, statusOfPod = 1, 2, 3
	metaLabels, metaAnnotations       = 11, 12
	specContainers, specNodeSelector  = 2, 7
	specTolerations, specOverhead     = 22, 32
	containerResources                = 8
)

// Maps in messages out of which parts are taken, of which our encoder makes well
// formed ones; see entryWhole.
var (
	mapsOfMeta   = []int{metaLabels, metaAnnotations}
	mapsOfSpec   = []int{specNodeSelector, specOverhead}
	mapsOfStatus = []int{statusCapacity, statusAllocated}
)

// get finds a part by its encoding, nil if it is not known.
func (t *parts[T]) get(data []byte) *part[T] {
	if len(data) == 0 {
		return nil
	}
	if p := t.slot(data).Load(); p != nil && p.data == string(data) {
		return p
	}
	return nil
}

func (t *parts[T]) slot(data []byte) *atomic.Pointer[part[T]] {
	return &t[maphash.Bytes(partSeed, data)%uint64(len(t))]
}

// share puts the part that is known in value's place, or makes value known.
func (t *parts[T]) share(data []byte, value *T) bool {
	if p := t.get(data); p != nil {
		*value = p.value
		return true
	}
	if len(data) > 0 {
		t.slot(data).Store(&part[T]{data: string(data), value: *value})
	}
	return false
}

// outline is where the parts of an encoded pod lie.
type outline struct {
	meta, spec, rest                []byte
	labels, containers, tolerations span
}

// span is a stretch of a message that holds all of a repeated field.
type span struct{ from, to int }

func (s span) in(message []byte) []byte { return message[s.from:s.to] }

// outlineOf reads no deeper than it must. ok is false for what is not laid out
// as an encoder of this version does it.
func outlineOf(data []byte) (o outline, ok bool) {
	var found [4][]byte
	last := 0
	for rest := data; len(rest) > 0; {
		number, body, n := fieldAt(rest)
		if n == 0 || body == nil || number != last+1 || number > statusOfPod {
			return o, false
		}
		found[number], last = body, number
		if rest = rest[n:]; number == specOfPod {
			o.rest = rest
		}
	}
	if last < specOfPod {
		return o, false
	}
	o.meta, o.spec = found[metaOfPod], found[specOfPod]
	if !spans(o.meta, mapsOfMeta, map1(metaLabels, &o.labels)) {
		return o, false
	}
	return o, spans(o.spec, mapsOfSpec, func(number int) *span {
		switch number {
		case specContainers:
			return &o.containers
		case specTolerations:
			return &o.tolerations
		}
		return nil
	})
}

func map1(number int, s *span) func(int) *span {
	return func(n int) *span {
		if n == number {
			return s
		}
		return nil
	}
}

// spans notes where the fields lie for which of gives a span; false where one of
// them lies in several places, or the message is not whole.
func spans(message []byte, maps []int, of func(number int) *span) bool {
	for at := 0; at < len(message); {
		number, body, n := fieldAt(message[at:])
		if n == 0 || slices.Contains(maps, number) && !entryWhole(body) {
			return false
		}
		if s := of(number); s != nil {
			switch {
			case s.to == 0:
				*s = span{at, at + n}
			case s.to == at:
				s.to += n
			default:
				return false
			}
		}
		at += n
	}
	return true
}

// entryWhole tells whether a map's entry keeps to itself: Unmarshal lets a key or
// a value run on into what follows the entry, so that the map would depend on it.
func entryWhole(entry []byte) bool {
	for len(entry) > 0 {
		_, body, n := fieldAt(entry)
		if n == 0 || body == nil {
			return false
		}
		entry = entry[n:]
	}
	return true
}

// fieldAt reads the first field of a message: its number, its body if it has a
// length, and its own length, 0 where it is none.
func fieldAt(data []byte) (number int, body []byte, n int) {
	tag, n := binary.Uvarint(data)
	if n <= 0 || tag>>3 == 0 || tag>>3 > 1<<20 {
		return 0, nil, 0
	}
	number = int(tag >> 3)
	value, m := binary.Uvarint(data[n:])
	switch {
	case tag&7 == 0 && m > 0:
		return number, nil, n + m
	case tag&7 == 2 && m > 0 && value <= uint64(len(data)-n-m):
		return number, data[n+m : n+m+int(value)], n + m + int(value)
	}
	return 0, nil, 0
}

// decodePod is Unmarshal that takes known parts from the tables.
func decodePod(pod *v1.Pod, data []byte) error {
	o, ok := outlineOf(data)
	if !ok {
		return pod.Unmarshal(data)
	}
	ofLabels, ofContainers := sameLabels.get(o.labels.in(o.meta)), sameContainers.get(o.containers.in(o.spec))
	ofTolerations := sameTolerations.get(o.tolerations.in(o.spec))
	var known []span
	if ofContainers != nil {
		known = append(known, o.containers)
	}
	if ofTolerations != nil {
		known = append(known, o.tolerations)
	}
	meta, spec := o.meta, without(o.spec, known)
	if ofLabels != nil {
		meta = without(meta, []span{o.labels})
	}
	left := make([]byte, 0, len(data)+8)
	left = appendMessage(left, metaOfPod, meta)
	left = appendMessage(left, specOfPod, spec)
	left = append(left, o.rest...)
	if err := pod.Unmarshal(left); err != nil {
		return err
	}
	if ofLabels != nil {
		pod.Labels = ofLabels.value
	}
	if ofContainers != nil {
		pod.Spec.Containers = ofContainers.value
	}
	if ofTolerations != nil {
		pod.Spec.Tolerations = ofTolerations.value
	}
	o.share(pod)
	return nil
}

// without leaves spans out of a message.
func without(message []byte, spans []span) []byte {
	if len(spans) == 0 {
		return message
	}
	slices.SortFunc(spans, func(a, b span) int { return a.from - b.from })
	left, at := make([]byte, 0, len(message)), 0
	for _, s := range spans {
		left = append(left, message[at:s.from]...)
		at = s.to
	}
	return append(left, message[at:]...)
}

func appendMessage(to []byte, number uint64, body []byte) []byte {
	to = binary.AppendUvarint(to, number<<3|2)
	to = binary.AppendUvarint(to, uint64(len(body)))
	return append(to, body...)
}

// share has the pod share its parts. It writes to the pod itself and to nothing
// that it may have in common with others.
func (o *outline) share(pod *v1.Pod) {
	sameLabels.share(o.labels.in(o.meta), &pod.Labels)
	sameTolerations.share(o.tolerations.in(o.spec), &pod.Spec.Tolerations)
	data := o.containers.in(o.spec)
	if sameContainers.get(data) != nil {
		sameContainers.share(data, &pod.Spec.Containers)
		return
	}
	// Where volumes have generated names no containers are alike, but what they
	// ask for may be.
	own := slices.Clone(pod.Spec.Containers)
	for i := range own {
		_, body, n := fieldAt(data)
		if n == 0 {
			return
		}
		data = data[n:]
		var at span
		if spans(body, nil, map1(containerResources, &at)) {
			sameResources.share(at.in(body), &own[i].Resources)
		}
	}
	pod.Spec.Containers = own
	sameContainers.share(o.containers.in(o.spec), &pod.Spec.Containers)
}

var _ store.Interner = Codec{}

// Intern implements store.Interner.
func (Codec) Intern(obj store.Object, data []byte) {
	switch obj := obj.(type) {
	case *v1.Pod:
		if o, ok := outlineOf(data); ok {
			o.share(obj)
		}
	case *v1.Node:
		shareAmounts(obj, data)
	}
}
