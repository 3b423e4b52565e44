package keyed

import (
	"sync"
	"testing"
)

func TestLocks(t *testing.T) {
	t.Parallel()
	var (
		l     Locks
		wg    sync.WaitGroup
		count = map[string]*int{"a": new(int), "b": new(int)} // each guarded by its name
	)
	for name, n := range count {
		for range 50 {
			wg.Go(func() {
				defer l.Lock(name)()
				*n++
			})
		}
	}
	wg.Wait()
	for name, n := range count {
		if *n != 50 {
			t.Errorf("%s was counted %d times, want 50", name, *n)
		}
	}
	if len(l.held) != 0 {
		t.Errorf("%d locks are kept that nobody holds", len(l.held))
	}
	defer l.Lock("a")()
	l.Lock("b")() // not held up by a
}
