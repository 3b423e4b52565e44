package store

import "sync"

// wake is what watchers wait on. It has a few tokens, or one; whoever gets one wakes up
// and gives it to the next. So a few watchers wake at once, and a crowd one after the
// other: ten thousand that are ready at once would stand before everybody else, and
// before what comes over the network, for as long as they take.
type wake chan struct{}

const (
	crowd  = 64 // so many watchers are one
	atOnce = 8  // how many wake at once where they are none
)

// newWake makes one for so many watchers; others may come yet.
func newWake(watchers int) wake {
	if watchers > crowd {
		return make(wake, 1)
	}
	return make(wake, atOnce)
}

// all wakes all who wait now or later. It is called once.
func (w wake) all() {
	for range cap(w) {
		w <- struct{}{}
	}
}

// next hands a token on.
func (w wake) next() { w <- struct{}{} }

// wakes hands what watchers wait on to a goroutine that wakes them: one of a commit
// about a thousand topics takes longer than the commit, and the sequencer shall not
// wait for it.
type wakes struct {
	mu      sync.Mutex
	pending []wake
	some    chan struct{} // holds a token while something is pending
}

func (w *wakes) add(more []wake) {
	w.mu.Lock()
	w.pending = append(w.pending, more...)
	w.mu.Unlock()
	select {
	case w.some <- struct{}{}:
	default:
	}
}

func (w *wakes) take() []wake {
	w.mu.Lock()
	defer w.mu.Unlock()
	pending := w.pending
	w.pending = nil
	return pending
}

func (s *Store) wakeWatchers() {
	for {
		select {
		case <-s.wakes.some:
		case <-s.stop: // wakes the watchers too
			return
		}
		for _, w := range s.wakes.take() {
			w.all()
		}
	}
}
