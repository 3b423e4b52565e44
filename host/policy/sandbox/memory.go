package sandbox

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/berth-dev/berth/host/policy/engine"
)

// Who has memory, where all guests together want more than they may have? Each
// gives way to those below it here, and none to its like:
//
//	verifiers, previous programs, explanations   nobody waits for them; they fail unheard
//	shadows                                they decide nothing
//	what decides
//	what came with the host and decides    without it no pod is placed

// ErrMemoryReclaimed is what a sandbox says whose memory went to others.
var ErrMemoryReclaimed = errors.New("its memory went to policies that come first, since all guests together have what they may (--guest-memory)")

// reclaimPause is how long one that nobody waits for asks for no more memory.
const reclaimPause = 10 * time.Second

// claim is how a sandbox stands for memory.
type claim struct {
	priority atomic.Int32 // an engine.MemoryPriority
	// again is when one that nobody waits for may next ask for memory.
	again time.Time
}

// Priority is what SetPriority said last.
func (c *claim) Priority() engine.MemoryPriority {
	return engine.MemoryPriority(c.priority.Load())
}

// reclaimed tells the failures that nobody is to blame for: an instance gave way
// in the midst of its work, or was refused memory and nobody waits for it.
func (c *claim) reclaimed(err error) bool {
	if errors.Is(err, engine.ErrClosed) {
		return true
	}
	if MemoryNeeded(err) == 0 || c.Priority() != engine.PrioritySpare {
		return false
	}
	c.again = time.Now().Add(reclaimPause)
	return true
}

func (c *claim) mayAsk() bool {
	return c.Priority() != engine.PrioritySpare || !time.Now().Before(c.again)
}

// SetPriority says for whom the guest gives its memory up. It may be called by any goroutine.
func (s *Sandbox) SetPriority(r engine.MemoryPriority) {
	s.priority.Store(int32(r))
	if i := s.held.Load(); i != nil {
		i.SetMemoryPriority(r)
	}
}

// notice forgets an instance that gave way between two calls.
func (s *Sandbox) notice() {
	if s.instance != nil && s.instance.Closed() {
		s.Close()
	}
}

// MemoryNeeded is how much memory there was no room for, 0 if an error is another one.
func MemoryNeeded(err error) int64 {
	var full *engine.MemoryQuotaError
	if errors.As(err, &full) {
		return full.Needs
	}
	return 0
}
