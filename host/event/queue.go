package event

import "sync"

// queue is what waits to be written. It takes memory only while much does.
type queue struct {
	mu      sync.Mutex
	waiting []occurrence
	// more is told when something waits.
	more chan struct{}
}

// spare is how many of what waits lie in memory that is kept.
const spare = 1024

func newQueue() queue { return queue{more: make(chan struct{}, 1)} }

// put takes one more in, unless too many wait.
func (q *queue) put(t occurrence) bool {
	q.mu.Lock()
	if len(q.waiting) == queued {
		q.mu.Unlock()
		return false
	}
	q.waiting = append(q.waiting, t)
	first := len(q.waiting) == 1
	q.mu.Unlock()
	if first {
		select {
		case q.more <- struct{}{}:
		default:
		}
	}
	return true
}

// take gives all that waits, for the memory of what was taken before.
func (q *queue) take(before []occurrence) []occurrence {
	clear(before)
	if cap(before) > spare {
		before = nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.waiting
	q.waiting = before[:0]
	return all
}
