package storetest

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/host/store"
)

func pattern(n int) []byte {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(i * 7 >> 3)
	}
	return data
}

func testBlobs(t *testing.T, reopen func() store.Engine) {
	s := OpenEngine(t, reopen())
	ctx := t.Context()
	blobs := map[string][]byte{
		"empty": {}, "one": pattern(256 << 10), "one-more": pattern(256<<10 + 1), "large": pattern(20 << 20),
	}
	for digest, data := range blobs {
		if err := s.PutBlob(ctx, digest, data); err != nil {
			t.Fatalf("put %s: %v", digest, err)
		}
	}
	check := func(when string) {
		t.Helper()
		for digest, want := range blobs {
			if got, err := s.Blob(ctx, digest); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: blob %s: %d bytes, %v; want %d", when, digest, len(got), err, len(want))
			}
		}
	}
	check("live")
	if err := s.DeleteBlob(ctx, "one"); err != nil {
		t.Fatal(err)
	}
	delete(blobs, "one")
	for _, op := range []func() error{
		func() error { return s.DeleteBlob(ctx, "one") },
		func() error { _, err := s.Blob(ctx, "one"); return err },
	} {
		if err := op(); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("a deleted blob: %v, want ErrNotFound", err)
		}
	}
	for _, bad := range []string{"", "a/b", "a\x00"} {
		if err := s.PutBlob(ctx, bad, nil); err == nil {
			t.Errorf("digest %q was taken", bad)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = OpenEngine(t, reopen())
	check("after a restart")
	got, err := s.Blobs(ctx)
	if d := cmp.Diff([]string{"empty", "large", "one-more"}, got); err != nil || d != "" {
		t.Errorf("blobs: %v (-want +got):\n%s", err, d)
	}
}
