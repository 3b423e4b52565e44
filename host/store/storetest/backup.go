package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/berth-dev/berth/host/store"
)

func testBackup(t *testing.T, reopen func() store.Engine) {
	engine := reopen()
	s := OpenEngine(t, engine)
	for i := range 20 {
		must(t, s, create("a", fmt.Sprint("x", i), "1"))
	}
	must(t, s, remove("a", "x7", 0))
	if err := s.PutBlob(t.Context(), "d", pattern(600<<10)); err != nil {
		t.Fatal(err)
	}
	want, err := s.List("configmaps", "", store.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var backup bytes.Buffer
	rev, err := s.Backup(t.Context(), &backup)
	if err != nil || rev != want.Revision {
		t.Fatalf("backup at %d, %v; want %d", rev, err, want.Revision)
	}
	if _, err := store.Restore(t.Context(), engine, bytes.NewReader(backup.Bytes())); !errors.Is(err, store.ErrNotEmpty) {
		t.Errorf("restore over data: %v, want ErrNotEmpty", err)
	}
	checkRestored(t, backup.Bytes(), rev, want)
	checkDamaged(t, backup.Bytes())
}

func checkRestored(t *testing.T, backup []byte, rev int64, want store.List) {
	t.Helper()
	fresh := store.NewMemory()
	restored, err := store.Restore(t.Context(), fresh, bytes.NewReader(backup))
	if err != nil || restored <= rev {
		t.Fatalf("restore: revision %d, %v; want above %d", restored, err, rev)
	}
	s := OpenEngine(t, fresh)
	got, err := s.List("configmaps", "", store.ListOptions{})
	if err != nil || got.Revision != restored {
		t.Fatalf("restored list at %d, %v; want %d", got.Revision, err, restored)
	}
	if d := cmp.Diff(want.Items, got.Items); d != "" {
		t.Errorf("restored (-want +got):\n%s", d)
	}
	if blob, err := s.Blob(t.Context(), "d"); err != nil || !bytes.Equal(blob, pattern(600<<10)) {
		t.Errorf("restored blob: %d bytes, %v", len(blob), err)
	}
	if _, err := s.Watch("configmaps", "", rev); !errors.Is(err, store.ErrCompacted) {
		t.Errorf("watch from before the restore: %v, want ErrCompacted", err)
	}
}

// checkDamaged cuts and bends the backup at many places: each is refused, and
// what was written of it is never opened.
func checkDamaged(t *testing.T, backup []byte) {
	t.Helper()
	refuse := func(what string, data []byte) {
		t.Helper()
		engine := store.NewMemory()
		_, err := store.Restore(t.Context(), engine, bytes.NewReader(data))
		if !errors.Is(err, store.ErrDamaged) && !errors.Is(err, store.ErrFormat) {
			t.Errorf("%s: restore: %v, want a refusal", what, err)
		}
		s, err := store.Open(context.Background(), engine, Codec{Scheme: scheme.Scheme}, store.Options{})
		if err != nil {
			if !errors.Is(err, store.ErrHalfRestored) {
				t.Errorf("%s: open: %v, want ErrHalfRestored", what, err)
			}
			return
		}
		list, err := s.List("configmaps", "", store.ListOptions{})
		if err != nil || len(list.Items) > 0 {
			t.Errorf("%s: half a restore was opened: %d items, %v", what, len(list.Items), err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("%s: close: %v", what, err)
		}
	}
	step := len(backup)/40 + 1
	for at := 0; at < len(backup); at += step {
		refuse(fmt.Sprintf("cut at %d of %d", at, len(backup)), backup[:at])
		bent := bytes.Clone(backup)
		bent[at] ^= 0x10
		refuse(fmt.Sprintf("bit flipped at %d of %d", at, len(backup)), bent)
	}
	refuse("last byte missing", backup[:len(backup)-1])
	refuse("a byte too many", append(bytes.Clone(backup), 0))
}

// hooked is a writer that does something at its first write.
type hooked struct {
	bytes.Buffer
	once sync.Once
	hook func()
}

func (h *hooked) Write(p []byte) (int, error) {
	h.once.Do(h.hook)
	return h.Buffer.Write(p)
}

func testBackupMoment(t *testing.T, reopen func() store.Engine) {
	s := OpenEngine(t, reopen())
	must(t, s, create("a", "x", "1"), create("a", "y", "1"))
	// Blobs come first in a backup, so this one fills its buffer before objects.
	if err := s.PutBlob(t.Context(), "d", pattern(3<<20)); err != nil {
		t.Fatal(err)
	}
	want, err := s.List("configmaps", "", store.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	backup := &hooked{hook: func() {
		must(t, s, update("a", "x", "2", 0), remove("a", "y", 0), create("a", "z", "1"))
		if err := s.PutBlob(t.Context(), "e", pattern(3<<20)); err != nil {
			t.Errorf("put a blob during a backup: %v", err)
		}
		if err := s.DeleteBlob(t.Context(), "d"); err != nil {
			t.Errorf("delete a blob during a backup: %v", err)
		}
	}}
	rev, err := s.Backup(t.Context(), backup)
	if err != nil || rev != want.Revision {
		t.Fatalf("backup at %d, %v; want %d", rev, err, want.Revision)
	}
	fresh := store.NewMemory()
	if _, err := store.Restore(t.Context(), fresh, backup); err != nil {
		t.Fatal(err)
	}
	restored := OpenEngine(t, fresh)
	got, err := restored.List("configmaps", "", store.ListOptions{})
	if d := cmp.Diff(values(want), values(got)); err != nil || d != "" {
		t.Errorf("restored: %v (-want +got):\n%s", err, d)
	}
	if blob, err := restored.Blob(t.Context(), "d"); err != nil || !bytes.Equal(blob, pattern(3<<20)) {
		t.Errorf("restored blob: %d bytes, %v", len(blob), err)
	}
}
