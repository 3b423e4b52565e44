package badger_test

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	upstream "github.com/dgraph-io/badger/v4"

	"github.com/berth-dev/berth/host/store"
	"github.com/berth-dev/berth/host/store/badger"
	"github.com/berth-dev/berth/host/store/storetest"
)

func directory(t *testing.T) func() store.Engine {
	dir := t.TempDir()
	return func() store.Engine { return open(t, dir) }
}

func open(t testing.TB, dir string) *badger.Engine {
	t.Helper()
	e, err := badger.Open(dir, nil)
	if err != nil {
		t.Fatalf("open %s: %v", dir, err)
	}
	return e
}

func TestEngine(t *testing.T) {
	t.Parallel()
	storetest.Engine(t, directory)
}

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Store(t, directory)
}

func TestEmptyLogFilesAreRepaired(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := storetest.OpenEngine(t, open(t, dir))
	if err := s.PutBlob(t.Context(), "d", []byte("kept")); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"00099.mem", "000099.vlog"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s = storetest.OpenEngine(t, open(t, dir))
	if data, err := s.Blob(t.Context(), "d"); err != nil || string(data) != "kept" {
		t.Errorf("blob = %q, %v", data, err)
	}
}

func TestDirectoryIsHeldByOne(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	e := open(t, dir)
	_, err := badger.Open(dir, nil)
	if err == nil || !strings.Contains(err.Error(), dir+" is in use by another process: stop") {
		t.Errorf("second open: %v", err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory is %v, %v; want 0700", info.Mode(), err)
	}
	_, err = upstream.Open(upstream.DefaultOptions(dir).WithLogger(nil))
	if err == nil {
		t.Errorf("another program's badger opened the directory")
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if err := open(t, dir).Close(); err != nil {
		t.Fatal(err)
	}
}

func TestForeignDirectoryIsRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ key, value, want string }{
		"another program's": {"theirs", "1", "not berth's"},
		"a later format":    {"!format", "3", `engine format "3", this berth reads "2"`},
	} {
		dir := t.TempDir()
		db, err := upstream.Open(upstream.DefaultOptions(dir).WithLogger(nil))
		if err != nil {
			t.Fatal(err)
		}
		err = db.Update(func(txn *upstream.Txn) error { return txn.Set([]byte(tc.key), []byte(tc.value)) })
		if err := errors.Join(err, db.Close()); err != nil {
			t.Fatal(err)
		}
		_, err = badger.Open(dir, nil)
		if !errors.Is(err, store.ErrFormat) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want …%s…", name, err, tc.want)
		}
	}
}

// Badger answers a manifest of another version with several lines of advice.
func TestAManifestOfAnotherVersionIsRefusedInASentence(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := open(t, dir).Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, upstream.ManifestFilename)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[len("Bdgr")+3]++ // two bytes of magic, and two of the version
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = badger.Open(dir, nil)
	if !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), "berth restore BACKUP") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v, want ErrCorrupt and the way out in one line", err)
	}
}

// A directory of format 1, which had no sums, is taken over as it is; from then
// on it is verified like any other.
func TestAnOlderFormatIsTakenOver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, err := upstream.Open(upstream.DefaultOptions(dir).WithLogger(nil))
	if err != nil {
		t.Fatal(err)
	}
	number := func(n uint64, rest string) []byte { return append(binary.BigEndian.AppendUint64(nil, n), rest...) }
	err = db.Update(func(txn *upstream.Txn) error {
		return errors.Join(
			txn.Set([]byte("!format"), []byte("1")), txn.Set([]byte("!revision"), number(7, "")),
			txn.Set([]byte(".a"), number(5, "one")), txn.Set([]byte(".b"), number(7, "two")))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	want := []store.Record{{Key: "a", Value: []byte("one"), Revision: 5}, {Key: "b", Value: []byte("two"), Revision: 7}}
	for _, when := range []string{"at first", "again"} {
		e := open(t, dir)
		var got []store.Record
		revision, err := e.Scan(t.Context(), "", false, func(rec store.Record) error { got = append(got, rec); return nil })
		if d := cmp.Diff(want, got); d != "" || revision != 7 || err != nil {
			t.Errorf("%s: revision %d, %v; want 7 (-want +got):\n%s", when, revision, err, d)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	// What changes a record behind the engine's back is noticed now.
	if db, err = upstream.Open(upstream.DefaultOptions(dir).WithLogger(nil)); err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(txn *upstream.Txn) error { return txn.Set([]byte(".b"), number(7, "owt")) })
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := badger.Open(dir, nil); !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), "berth restore BACKUP") {
		t.Errorf("a changed record: %v, want ErrCorrupt and the way out", err)
	}
}

func TestUnusableDirectoryIsNamed(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := badger.Open(file, nil); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("open of a file: %v", err)
	}
}
