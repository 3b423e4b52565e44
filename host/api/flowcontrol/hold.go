package flowcontrol

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
)

// MaxStreams is how many watches and streams one user may have open, unless
// the host is told otherwise. No client of a cluster's own comes near: an agent
// has a dozen, and each has a name of its own.
const MaxStreams = 10_000

// holds counts what is open by user. It costs an entry for each user who has
// anything open.
type holds struct {
	most   int
	mu     sync.Mutex
	byUser map[string]*holding
}

// holding is what a user has open.
type holding struct {
	open    int // guarded by holds.mu
	turns   chan struct{}
	waiting atomic.Int32
}

// Hold counts a watch or another stream until release is called. By turn the stream
// writes to its client.
//
// # Errors
// 429 where the user has as many as one may.
func (f *Fair) Hold(who user.Info) (release func(), turn func(write func()), err error) {
	h, name := &f.holds, flowOf(who)
	h.mu.Lock()
	defer h.mu.Unlock()
	own := h.byUser[name]
	if own == nil {
		own = &holding{turns: make(chan struct{}, runtime.GOMAXPROCS(0))}
		h.byUser[name] = own
	}
	if own.open >= h.most {
		return nil, nil, apierrors.NewTooManyRequests(fmt.Sprintf(
			"%q has %d watches and streams open, as many as one client may: end some of them, or start the host with a larger --max-streams", name, h.most), 10)
	}
	own.open++
	return func() { h.release(name, own) }, own.turn, nil
}

func (h *holds) release(name string, own *holding) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if own.open--; own.open == 0 {
		delete(h.byUser, name)
	}
}

// longTurn is when a turn ends whose write still goes on, since its client is slow.
const longTurn = 5 * time.Millisecond

// turn runs write when it is its turn: as many of a user's streams write at once as
// there are processors, and where others wait, whoever else has something to do goes
// first. One event for ten thousand watches would otherwise be as many goroutines,
// behind all of which the next request stands.
func (h *holding) turn(write func()) {
	select {
	case h.turns <- struct{}{}:
	default:
		h.waiting.Add(1)
		h.turns <- struct{}{}
		h.waiting.Add(-1)
	}
	var over atomic.Bool
	end := func() {
		if !over.Swap(true) {
			<-h.turns
		}
	}
	defer time.AfterFunc(longTurn, end).Stop()
	defer end()
	write()
	if h.waiting.Load() > 0 {
		runtime.Gosched()
	}
}
