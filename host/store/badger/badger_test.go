package badger_test

import (
	"testing"

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
