package store

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// suffixed makes "shared" of stored bytes.
type suffixed struct{}

func (suffixed) Share(format string, data []byte, _ int64) ([]byte, bool) {
	return append(data[:len(data):len(data)], '!'), format == "shared"
}

func never(Object) ([]byte, error) { return nil, errors.New("encoded, though the bytes were there") }

func formats(e *entry) (names []string) {
	for s := e.encodings.head.Load(); s != nil; s = s.next.Load() {
		names = append(names, s.format)
	}
	return names
}

func TestAnEncodingTakesThePlaceOfTheStoredBytes(t *testing.T) {
	t.Parallel()
	e := &entry{obj: &corev1.ConfigMap{}, cache: &encodingCache{capacity: 1 << 20, sharer: suffixed{}}}
	e.keepStored([]byte("bytes"))
	other := func(Object) ([]byte, error) { return []byte("other"), nil }
	if data, err := e.shared("other", e.obj, other); err != nil || string(data) != "other" {
		t.Fatalf("shared(other) = %q, %v", data, err)
	}
	for range 2 {
		if data, err := e.shared("shared", e.obj, never); err != nil || string(data) != "bytes!" {
			t.Fatalf("shared = %q, %v, want bytes!", data, err)
		}
	}
	if got := formats(e); len(got) != 2 || got[0] != "shared" || got[1] != "other" {
		t.Errorf("the object holds %q, want what was shared and the other", got)
	}
}

func TestTheEncodingCacheForgetsByTime(t *testing.T) {
	t.Parallel()
	s := &encodingCache{capacity: 1 << 20, sharer: suffixed{}}
	old, young := &entry{cache: s}, &entry{cache: s}
	old.keepStored([]byte("old"))
	s.expire(2)
	young.keepStored([]byte("young"))
	s.expire(2)
	if got := formats(old); len(got) != 1 {
		t.Errorf("after two calls the object holds %q, want the stored bytes", got)
	}
	s.expire(2)
	if len(formats(old)) != 0 || len(formats(young)) != 1 {
		t.Errorf("after three calls the objects hold %q and %q, want the younger's bytes alone", formats(old), formats(young))
	}
	s.expire(2)
	if len(formats(young)) != 0 || s.bytes != 0 || len(s.queue) != 0 {
		t.Errorf("after all, %d bytes are kept in %d places", s.bytes, len(s.queue))
	}
}
