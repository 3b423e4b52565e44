package kind

import (
	"encoding/json"
	"fmt"

	"github.com/berth-dev/berth/host/store"
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
		return json.Marshal(obj)
	}
	data := make([]byte, pb.Size())
	if _, err := pb.MarshalToSizedBuffer(data); err != nil {
		return nil, fmt.Errorf("encode %T: %w", obj, err)
	}
	return data, nil
}

// Decode implements store.Codec.
func (Codec) Decode(resource string, data []byte) (store.Object, error) {
	k, ok := ByStoreName(resource)
	if !ok {
		return nil, fmt.Errorf("decode %s: not a stored kind of this version of Berth", resource)
	}
	obj := k.New()
	var err error
	if pb, ok := obj.(protobuf); ok {
		err = pb.Unmarshal(data)
	} else {
		err = json.Unmarshal(data, obj)
	}
	if err != nil {
		return nil, fmt.Errorf("decode %s: %w", resource, err)
	}
	return obj, nil
}
