package worker

import (
	"context"
	"sync"
	"time"
)

// turns bounds how many pods are started or taken down side by side. More at once
// would end no sooner, and the first of them much later: who came first goes first.
type turns struct {
	mu    sync.Mutex
	free  int
	queue []*waiter
}

// waiter waits for its turn, which comes when ready is closed.
type waiter struct {
	came  uint64
	ready chan struct{}
}

// longestTurn is how long a turn is kept: what hangs must not hold up others.
const longestTurn = 5 * time.Second

func newTurns(n int) *turns { return &turns{free: n} }

// take waits for a turn of the one that came as the came-th, until ctx ends, which is
// an error of its own. The turn ends with done.
func (t *turns) take(ctx context.Context, came uint64) (done func(), err error) {
	w := &waiter{came: came, ready: make(chan struct{})}
	t.mu.Lock()
	if t.free > 0 {
		t.free--
		close(w.ready)
	} else {
		t.queue = append(t.queue, w)
	}
	t.mu.Unlock()
	select {
	case <-w.ready:
	case <-ctx.Done():
		t.leave(w)
		return nil, ctx.Err()
	}
	give := sync.OnceFunc(t.give)
	late := time.AfterFunc(longestTurn, give)
	return func() { late.Stop(); give() }, nil
}

// leave takes a waiter out of the queue, or gives the turn back that it has just got.
func (t *turns) leave(w *waiter) {
	t.mu.Lock()
	for i, other := range t.queue {
		if other == w {
			t.queue = append(t.queue[:i], t.queue[i+1:]...)
			t.mu.Unlock()
			return
		}
	}
	t.mu.Unlock()
	t.give()
}

// give hands a turn to whoever came first of those that wait.
func (t *turns) give() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.queue) == 0 {
		t.free++
		return
	}
	first := 0
	for i, w := range t.queue {
		if w.came < t.queue[first].came {
			first = i
		}
	}
	close(t.queue[first].ready)
	t.queue = append(t.queue[:first], t.queue[first+1:]...)
}

// inTurn does something in the pod's turn.
func (w *worker) inTurn(ctx context.Context, do func() error) error {
	done, err := w.turns.take(ctx, w.came)
	if err != nil {
		return err
	}
	defer done()
	return do()
}
