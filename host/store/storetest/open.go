package storetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/berth-dev/berth/host/store"
)

// Open returns a store in memory with Codec, closed at the end of the test.
func Open(t testing.TB, opts ...store.Options) *store.Store {
	t.Helper()
	return OpenEngine(t, store.NewMemory(), opts...)
}

// OpenEngine is Open over the given engine.
func OpenEngine(t testing.TB, engine store.Engine, opts ...store.Options) *store.Store {
	t.Helper()
	var o store.Options
	if len(opts) > 0 {
		o = opts[0]
	}
	s, err := store.Open(t.Context(), engine, Codec{Scheme: scheme.Scheme}, o)
	if err != nil {
		t.Fatalf("open store: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close store: %v", err)
		}
	})
	return s
}

// Codec writes the kind on a line and the object as JSON on the next. It knows
// the kinds of its scheme.
type Codec struct{ Scheme *runtime.Scheme }

func (c Codec) Encode(obj store.Object) ([]byte, error) {
	kinds, _, err := c.Scheme.ObjectKinds(obj)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	gvk := kinds[0]
	return append(fmt.Appendf(nil, "%s %s\n", gvk.GroupVersion(), gvk.Kind), body...), nil
}

func (c Codec) Decode(_ string, data []byte) (store.Object, error) {
	head, body, ok := bytes.Cut(data, []byte("\n"))
	if !ok {
		return nil, fmt.Errorf("no kind in %d bytes", len(data))
	}
	version, kind, _ := bytes.Cut(head, []byte(" "))
	obj, err := c.Scheme.New(schema.FromAPIVersionAndKind(string(version), string(kind)))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(body, obj); err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	stored, ok := obj.(store.Object)
	if !ok {
		return nil, fmt.Errorf("%s is no object", kind)
	}
	return stored, nil
}
