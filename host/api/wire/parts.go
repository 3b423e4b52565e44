package wire

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
)

// fewBytes hold too few parts to be counted.
const fewBytes = 2 * maxParts / 4

// checkParts refuses a protobuf message of more parts than maxParts, before
// memory is given to them. What it cannot read, the decoder will refuse.
func checkParts(raw []byte, into any) error {
	if len(raw) < fewBytes {
		return nil
	}
	left := maxParts
	layoutOf(reflect.TypeOf(into).Elem()).count(raw, &left)
	if left < 0 {
		return fmt.Errorf("the message is made of more than %d parts", maxParts)
	}
	return nil
}

// layout says which fields of a message are messages themselves. It is made
// when it is needed first, since a type may hold itself.
type layout struct {
	of    reflect.Type
	once  sync.Once
	parts map[uint64]*layout
}

var layouts sync.Map // reflect.Type → *layout

func layoutOf(t reflect.Type) *layout {
	had, _ := layouts.LoadOrStore(t, &layout{of: t})
	return had.(*layout)
}

// partsOf reads the tags that Kubernetes' generator writes:
// `protobuf:"bytes,2,rep,name=containers"`.
func partsOf(t reflect.Type) map[uint64]*layout {
	parts := map[uint64]*layout{}
	if t.Kind() != reflect.Struct {
		return parts
	}
	for i := range t.NumField() {
		f := t.Field(i)
		wire, rest, _ := strings.Cut(f.Tag.Get("protobuf"), ",")
		digits, _, _ := strings.Cut(rest, ",")
		number, err := strconv.ParseUint(digits, 10, 32)
		if wire != "bytes" || err != nil {
			continue
		}
		switch of := f.Type; {
		case of.Kind() == reflect.Map, of.Kind() == reflect.Slice && of.Elem().Kind() != reflect.Struct && of.Elem().Kind() != reflect.Uint8:
			parts[number] = layoutOf(reflect.TypeFor[struct{}]()) // entries, in which nothing counts
		case of.Kind() == reflect.Slice && of.Elem().Kind() == reflect.Struct, of.Kind() == reflect.Pointer && of.Elem().Kind() == reflect.Struct:
			parts[number] = layoutOf(of.Elem())
		case of.Kind() == reflect.Struct:
			parts[number] = layoutOf(of)
		}
	}
	return parts
}

// count takes from left what a message is made of, until nothing is left.
func (l *layout) count(raw []byte, left *int) {
	l.once.Do(func() { l.parts = partsOf(l.of) })
	for len(raw) > 0 && *left >= 0 {
		tag, n := binary.Uvarint(raw)
		if n <= 0 {
			return
		}
		raw = raw[n:]
		switch tag & 7 {
		case 0:
			if _, n = binary.Uvarint(raw); n <= 0 {
				return
			}
		case 1:
			n = 8
		case 5:
			n = 4
		case 2:
			size, m := binary.Uvarint(raw)
			if m <= 0 || size > uint64(len(raw)-m) {
				return
			}
			n = m + int(size)
			if part, ok := l.parts[tag>>3]; ok {
				*left--
				part.count(raw[m:n], left)
			}
		default:
			return
		}
		if n > len(raw) {
			return
		}
		raw = raw[n:]
	}
}
