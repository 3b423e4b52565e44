package policy

import (
	"errors"
	"time"

	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/rollout"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

// Who has memory, where all guests together want more than they may have? Each
// gives way to those below it here, and none to its like:
//
//	twins, former programs, explanations   nobody waits for them; they fail unheard
//	shadows                                they decide nothing
//	what decides
//	what came with the host and decides    without it no pod is placed

// errCrowded is what a sandbox says whose memory went to others.
var errMemoryReclaimed = errors.New("its memory went to policies that come first, since all guests together have what they may (--guest-memory)")

// crowdedPause is how long one that nobody waits for asks for no more memory.
const reclaimPause = 10 * time.Second

// setPriority tells a policy's sandboxes for whom they give their memory up.
func (l *Loader) setPriority(one *live) {
	for _, former := range one.previous {
		former.setPriority(engine.PrioritySpare)
	}
	if one.version != nil {
		one.version.setPriority(l.priorityOf(one.version, one.state.Policy))
	}
	if one.canary != nil {
		one.canary.setPriority(l.priorityOf(one.canary.version, one.state.Policy))
	}
}

func (l *Loader) priorityOf(v *version, object *v1alpha1.Policy) engine.MemoryPriority {
	_, own := l.own.Load(v.program.module.Digest())
	switch {
	case object.ModeOf() == v1alpha1.Off:
		return engine.PrioritySpare
	case object.ModeOf() == v1alpha1.Shadow:
		return engine.PriorityTrial
	case own:
		return engine.PriorityFirst
	}
	return engine.PriorityCommon
}

func (o *version) setPriority(r engine.MemoryPriority) {
	o.main.setPriority(r)
	if o.verifier != nil {
		o.verifier.setPriority(engine.PrioritySpare)
	}
}

// setRank may be called by any goroutine.
func (s *sandbox) setPriority(r engine.MemoryPriority) {
	s.memoryPriority.Store(int32(r))
	if i := s.held.Load(); i != nil {
		i.SetMemoryPriority(r)
	}
}

func (s *sandbox) priorityNow() engine.MemoryPriority {
	return engine.MemoryPriority(s.memoryPriority.Load())
}

// spared makes a sandbox one that nobody waits for.
func (s *sandbox) spared() *sandbox {
	s.setPriority(engine.PrioritySpare)
	return s
}

// notice forgets an instance that gave way between two calls.
func (s *sandbox) notice() {
	if s.instance != nil && s.instance.Closed() {
		s.close()
	}
}

// crowded tells the failures that nobody is to blame for: an instance gave way
// in the midst of its work, or was refused memory and nobody waits for it.
func (s *sandbox) memoryReclaimed(err error) bool {
	if errors.Is(err, engine.ErrClosed) {
		return true
	}
	if memoryNeeded(err) == 0 || s.priorityNow() != engine.PrioritySpare {
		return false
	}
	s.again = time.Now().Add(reclaimPause)
	return true
}

func (s *sandbox) mayAsk() bool {
	return s.priorityNow() != engine.PrioritySpare || !time.Now().Before(s.again)
}

// needs is how much memory there was no room for, 0 if an error is another one.
func memoryNeeded(err error) int64 {
	var full *engine.MemoryQuotaError
	if errors.As(err, &full) {
		return full.Needs
	}
	return 0
}

// tryCrowded has policies loaded again that were refused for want of memory, as
// soon as there is some.
func (l *Loader) retryForMemory() {
	l.reloading.Lock()
	defer l.reloading.Unlock()
	for _, one := range l.policies {
		if l.memoryFor(one) {
			signal(l.wake)
			return
		}
	}
}

func (l *Loader) memoryFor(o *live) bool {
	return o.state.Main.Stands() == rollout.WaitingForMemory && l.Engine.MemoryAvailable(o.state.Main.Memory)
}
