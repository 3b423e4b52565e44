package store

import "sync"

// wake is what watchers wait on. It has a few tokens; whoever gets one wakes up and
// gives it to the next. So a few watchers wake at once, and a crowd one after the other:
// ten thousand that are ready at once would stand before everybody else, and before what
// comes over the network, for as long as they take.
type wake chan struct{}

// atOnce is how many watchers wake at once.
const atOnce = 8

func newWake() wake { return make(wake, atOnce) }

// all wakes all who wait now or later. It is called once.
func (w wake) all() {
	for range atOnce {
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
