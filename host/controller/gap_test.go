package controller

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/store"
)

// gap is a store whose first watch of a resource came too late: an object was
// deleted before, and nothing tells of it.
type gap struct {
	*cluster
	Objects
	resource string
	lost     store.Object
	watched  *atomic.Bool
}

func (g gap) Watch(resource, namespace string, from int64) (*store.Watch, error) {
	if resource != g.resource || !g.watched.CompareAndSwap(false, true) {
		return g.Objects.Watch(resource, namespace, from)
	}
	time.Sleep(time.Second)
	synctest.Wait() // until all was asked about
	if _, _, err := g.store.Commit(g.t.Context(), store.Op{Kind: store.Delete, Key: keyOf(resource, g.lost)}); err != nil {
		g.t.Error(err)
	}
	return nil, store.ErrCompacted
}

func TestWhatWentInAGapIsFound(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		resource string
		lost     store.Object
		gone     bool // the guest is to be asked about a parent that is gone
		children int32
	}{
		{"a parent", "replicasets.apps", set("web", 1), true, 1},
		{"a child", "pods", owned("own", "web"), false, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var gone atomic.Bool
			var children atomic.Int32
			g := &guest{gone: true, decide: func(parent *Object, all []Object) (*abi.ReconcileResult, error) {
				gone.Store(parent.Object.GetResourceVersion() == "")
				children.Store(int32(len(all)))
				return &abi.ReconcileResult{}, nil
			}}
			driveOver(t, g, func(c *cluster) Objects {
				return gap{c, c.store, tt.resource, tt.lost, new(atomic.Bool)}
			}, func(c *cluster) {
				c.put("replicasets.apps", set("web", 1))
				c.put("pods", owned("own", "web"))
			}, func(*cluster) {
				if gone.Load() != tt.gone || children.Load() != tt.children {
					t.Errorf("last asked with %d children, of a parent that is gone: %t, want %d and %t", children.Load(), gone.Load(), tt.children, tt.gone)
				}
			})
		})
	}
}
