package store_test

import (
	"errors"
	"fmt"
	"testing"

	"k8s.io/client-go/kubernetes/scheme"

	"github.com/berth-dev/berth/host/store"
	"github.com/berth-dev/berth/host/store/storetest"
)

// counting is a codec that counts what it encodes.
type counting struct {
	store.Codec
	encoded int
}

func (c *counting) Encode(o store.Object) ([]byte, error) {
	c.encoded++
	return c.Codec.Encode(o)
}

func TestWhatIsTooLargeIsNotEncodedToItsEnd(t *testing.T) {
	t.Parallel()
	codec := &counting{Codec: storetest.Codec{Scheme: scheme.Scheme}}
	engine := &gated{Engine: store.NewMemory(), limits: &store.Limits{Bytes: 1500, Records: 1000}}
	s, err := store.Open(t.Context(), engine, codec, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(t, s)
	var ops []store.Op
	for i := range 500 {
		ops = append(ops, create(fmt.Sprint("x", i), "1"))
	}
	if _, _, err := s.Commit(t.Context(), ops...); !errors.Is(err, store.ErrTooLarge) {
		t.Errorf("a commit of 500: %v, want ErrTooLarge", err)
	}
	if codec.encoded > 20 {
		t.Errorf("%d objects were encoded, want no more than it takes to know", codec.encoded)
	}
}
