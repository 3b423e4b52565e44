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
	open    atomic.Int32 // written under holds.mu
	turns   chan struct{}
	few     chan struct{} // those of a crowd
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
		processors := runtime.GOMAXPROCS(0)
		own = &holding{turns: make(chan struct{}, processors), few: make(chan struct{}, max(1, processors/2))}
		h.byUser[name] = own
	}
	if int(own.open.Load()) >= h.most {
		return nil, nil, apierrors.NewTooManyRequests(fmt.Sprintf(
			"%q has %d watches and streams open, as many as one client may: end some of them, or start the host with a larger --max-streams", name, h.most), 10)
	}
	own.open.Add(1)
	return func() { h.release(name, own) }, own.turn, nil
}

func (h *holds) release(name string, own *holding) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if own.open.Add(-1) == 0 {
		delete(h.byUser, name)
	}
}

// longTurn is when a turn ends whose write still goes on, since its client is slow.
const longTurn = 5 * time.Millisecond

// crowd is how many streams of one user are one. Go looks at the network when a
// processor has nothing else to do, and each 10 ms while none has: a crowd that kept
// all of them busy for half a second would have others wait as long at each turn.
const crowd = 2_000

// turn runs write when it is its turn: as many of a user's streams write at once as
// there are processors, of a crowd half as many, and where others wait, whoever else has something to do goes
// first. One event for ten thousand watches would otherwise be as many goroutines,
// behind all of which the next request stands.
func (h *holding) turn(write func()) {
	turns := h.turns
	if h.open.Load() > crowd {
		turns = h.few
	}
	select {
	case turns <- struct{}{}:
	default:
		h.waiting.Add(1)
		turns <- struct{}{}
		h.waiting.Add(-1)
	}
	var over atomic.Bool
	end := func() {
		if !over.Swap(true) {
			<-turns
		}
	}
	defer time.AfterFunc(longTurn, end).Stop()
	defer end()
	write()
	if h.waiting.Load() > 0 {
		runtime.Gosched()
	}
}
