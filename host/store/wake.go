package store

import "sync"

// wakes hands the channels that watchers wait on to a goroutine that closes
// them: waking a thousand goroutines takes longer than a commit, and the
// sequencer shall not wait for it.
type wakes struct {
	mu      sync.Mutex
	pending []chan struct{}
	some    chan struct{} // holds a token while something is pending
}

func (w *wakes) add(chans []chan struct{}) {
	w.mu.Lock()
	w.pending = append(w.pending, chans...)
	w.mu.Unlock()
	select {
	case w.some <- struct{}{}:
	default:
	}
}

func (w *wakes) take() []chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	chans := w.pending
	w.pending = nil
	return chans
}

func (s *Store) wakeWatchers() {
	for {
		select {
		case <-s.wakes.some:
		case <-s.stop: // wakes the watchers too
			return
		}
		for _, c := range s.wakes.take() {
			close(c)
		}
	}
}
