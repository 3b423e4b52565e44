package badger_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
