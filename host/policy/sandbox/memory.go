package sandbox

import (
	"errors"
	"time"

	"github.com/berth-dev/berth/host/policy/engine"
)

// Who has memory, where all guests together want more than they may have? Each
// gives way to those below it here, and none to its like:
//
//	verifiers, former programs, explanations   nobody waits for them; they fail unheard
//	shadows                                they decide nothing
//	what decides
//	what came with the host and decides    without it no pod is placed

// ErrMemoryReclaimed is what a sandbox says whose memory went to others.
var ErrMemoryReclaimed = errors.New("its memory went to policies that come first, since all guests together have what they may (--guest-memory)")

// reclaimPause is how long one that nobody waits for asks for no more memory.
const reclaimPause = 10 * time.Second

// SetPriority says for whom the guest gives its memory up. It may be called by any goroutine.
func (s *Sandbox) SetPriority(r engine.MemoryPriority) {
	s.memoryPriority.Store(int32(r))
	if i := s.held.Load(); i != nil {
		i.SetMemoryPriority(r)
	}
}

// Priority is what SetPriority said last.
func (s *Sandbox) Priority() engine.MemoryPriority {
	return engine.MemoryPriority(s.memoryPriority.Load())
}

// spared makes a sandbox one that nobody waits for.
func (s *Sandbox) spared() *Sandbox {
	s.SetPriority(engine.PrioritySpare)
	return s
}

// notice forgets an instance that gave way between two calls.
func (s *Sandbox) notice() {
	if s.instance != nil && s.instance.Closed() {
		s.Close()
	}
}

// memoryReclaimed tells the failures that nobody is to blame for: an instance gave way
// in the midst of its work, or was refused memory and nobody waits for it.
func (s *Sandbox) memoryReclaimed(err error) bool {
	if errors.Is(err, engine.ErrClosed) {
		return true
	}
	if MemoryNeeded(err) == 0 || s.Priority() != engine.PrioritySpare {
		return false
	}
	s.again = time.Now().Add(reclaimPause)
	return true
}

func (s *Sandbox) mayAsk() bool {
	return s.Priority() != engine.PrioritySpare || !time.Now().Before(s.again)
}

// MemoryNeeded is how much memory there was no room for, 0 if an error is another one.
func MemoryNeeded(err error) int64 {
	var full *engine.MemoryQuotaError
	if errors.As(err, &full) {
		return full.Needs
	}
	return 0
}
