package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/host/store"
	"github.com/berth-dev/berth/host/store/storetest"
)

// flaky is an engine that is unavailable while down is set. The commit that
// finds it so is written or not.
type flaky struct {
	store.Engine
	down   atomic.Bool
	writes atomic.Bool
	tried  atomic.Int64
}

var errDescriptors = fmt.Errorf("%w: too many open files", store.ErrUnavailable)

func (f *flaky) Commit(ctx context.Context, b store.Batch) error {
	if !f.down.Load() {
		return f.Engine.Commit(ctx, b)
	}
	if f.tried.Add(1) == 1 && f.writes.Load() {
		if err := f.Engine.Commit(ctx, b); err != nil {
			return err
		}
	}
	return errDescriptors
}

func (f *flaky) Scan(ctx context.Context, prefix string, keysOnly bool, fn func(store.Record) error) (int64, error) {
	if f.down.Load() {
		return 0, errDescriptors
	}
	return f.Engine.Scan(ctx, prefix, keysOnly, fn)
}

// An engine that cannot write for a while costs writes alone: reads and watches
// go on, nobody is told to be done who is not, and what was written after all is
// seen before anything that comes after it.
func TestUnavailableEngineIsWaitedFor(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		written, waits bool
		want           []string
	}{
		"not written":                    {false, false, []string{"w2", "z3"}},
		"written, unknown to all":        {true, false, []string{"w2", "y3", "z4"}},
		"not written, nobody writes":     {false, true, []string{"w2", "z3"}},
		"written, and nobody writes yet": {true, true, []string{"w2", "y3", "z4"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				engine := &flaky{Engine: store.NewMemory()}
				s := storetest.OpenEngine(t, engine)
				w, err := s.Watch("configmaps", "", s.Revision())
				if err != nil {
					t.Fatal(err)
				}
				commit(t, s, create("w", "1"))
				engine.writes.Store(tc.written)
				engine.down.Store(true)
				for _, name := range []string{"y", "x"} {
					if _, _, err := s.Commit(t.Context(), create(name, "1")); !errors.Is(err, store.ErrUnavailable) {
						t.Errorf("commit of %s: %v, want ErrUnavailable", name, err)
					}
				}
				if _, ok := s.Get(key("w")); !ok || s.Err() != nil || s.Revision() != 2 {
					t.Errorf("meanwhile: read %v, Err %v, revision %d", ok, s.Err(), s.Revision())
				}
				engine.down.Store(false)
				if tc.waits {
					time.Sleep(2 * time.Second)
					if _, ok := s.Get(key("y")); ok != tc.written {
						t.Errorf("y is there: %v, want %v", ok, tc.written)
					}
				}
				commit(t, s, create("z", "1"))
				if d := cmp.Diff(tc.want, told(t, w)); d != "" {
					t.Errorf("events (-want +got):\n%s", d)
				}
			})
		})
	}
}

// told names what a watch shows until it has caught up, each with its revision.
func told(t *testing.T, w *store.Watch) (names []string) {
	t.Helper()
	nothing := make(chan time.Time)
	close(nothing)
	for {
		events, err := w.NextBefore(t.Context(), nothing)
		if err != nil {
			t.Fatal(err)
		}
		if len(events) == 0 {
			return names
		}
		for _, ev := range events {
			names = append(names, fmt.Sprint(ev.Key.Name, ev.Revision))
		}
	}
}
