package kind

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"

	"github.com/berth-dev/berth/host/store"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// protobuf is what the types of k8s.io/api generate.
type protobuf interface {
	Size() int
	MarshalToSizedBuffer([]byte) (int, error)
	Unmarshal([]byte) error
}

// Codec is the store's: protobuf for Kubernetes' kinds, JSON for Berth's own.
// Neither form names the type, which the key's resource tells.
type Codec struct{}

var _ store.Codec = Codec{}

// Encode implements store.Codec.
func (Codec) Encode(obj store.Object) ([]byte, error) {
	rv := obj.GetResourceVersion()
	if rv != "" {
		k, ok := Of(obj)
		if !ok {
			return nil, fmt.Errorf("encode %T: not a kind of this API", obj)
		}
		// The revision is where the bytes lie, so they don't repeat it.
		obj = k.Shallow(obj)
		obj.SetResourceVersion("")
	}
	pb, ok := obj.(protobuf)
	if !ok {
		return encodeJSON(obj)
	}
	data := make([]byte, pb.Size())
	if _, err := pb.MarshalToSizedBuffer(data); err != nil {
		return nil, fmt.Errorf("encode %T: %w", obj, err)
	}
	return data, nil
}

// encodeJSON refuses what could not be read again, which no start would survive:
// a time with a zone may lie in a year that it has no form for in UTC.
func encodeJSON(obj store.Object) ([]byte, error) {
	data, err := json.Marshal(obj)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", obj, err)
	}
	again := reflect.New(reflect.TypeOf(obj).Elem()).Interface()
	if err := json.Unmarshal(data, again); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the object cannot be stored, since it could not be read again: %v", err))
	}
	return data, nil
}

// SharedProtobuf names the encoding in protobuf, in the stored version, that
// all who are shown an object share.
const SharedProtobuf = "protobuf"

var _ store.Sharer = Codec{}

// Share implements store.Sharer: what is shown in protobuf is what is stored,
// with the revision added to the metadata. Those are field 1 of every kind, and
// come first; within a message the order of fields is free.
func (Codec) Share(format string, data []byte, rev int64) ([]byte, bool) {
	const metadata, resourceVersion = 1<<3 | 2, 6<<3 | 2
	if format != SharedProtobuf || len(data) < 2 || data[0] != metadata {
		return nil, false
	}
	size, n := binary.Uvarint(data[1:])
	if n <= 0 || size > uint64(len(data)-1-n) {
		return nil, false
	}
	meta, rest := data[1+n:1+n+int(size)], data[1+n+int(size):]
	var digits [20]byte
	version := strconv.AppendInt(digits[:0], rev, 10)
	out := make([]byte, 0, len(data)+2+len(version)+1)
	out = append(out, metadata)
	out = binary.AppendUvarint(out, size+uint64(2+len(version)))
	out = append(out, meta...)
	out = append(out, resourceVersion, byte(len(version)))
	out = append(out, version...)
	return append(out, rest...), true
}

// Decode implements store.Codec.
func (Codec) Decode(resource string, data []byte) (store.Object, error) {
	k, ok := ByStoreName(resource)
	if !ok {
		return nil, fmt.Errorf("decode %s: not a stored kind of this version of Berth", resource)
	}
	obj := k.New()
	var err error
	switch o := obj.(type) {
	case *v1.Pod:
		err = decodePod(o, data)
	case *v1.Node:
		if err = o.Unmarshal(data); err == nil {
			shareAmounts(o, data)
		}
	case protobuf:
		err = o.Unmarshal(data)
	default:
		err = json.Unmarshal(data, obj)
	}
	if err != nil {
		return nil, fmt.Errorf("decode %s: %w", resource, err)
	}
	return obj, nil
}
