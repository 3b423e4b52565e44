package store_test

import (
	"testing"

	"github.com/berth-dev/berth/host/store"
	"github.com/berth-dev/berth/host/store/storetest"
)

func memory(*testing.T) func() store.Engine {
	m := store.NewMemory()
	return func() store.Engine { return m }
}

func TestMemoryEngine(t *testing.T) {
	t.Parallel()
	storetest.Engine(t, memory)
}

func TestStoreOverMemory(t *testing.T) {
	t.Parallel()
	storetest.Store(t, memory)
}
