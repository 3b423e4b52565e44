package policy

import (
	"errors"
	"time"

	"github.com/berth-dev/berth/host/policy/engine"
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
var errCrowded = errors.New("its memory went to policies that come first, since all guests together have what they may (--guest-memory)")

// crowdedPause is how long one that nobody waits for asks for no more memory.
const crowdedPause = 10 * time.Second

// rank tells a policy's sandboxes for whom they give their memory up.
func (l *Loader) rank(one *live) {
	for _, former := range one.former {
		former.rank(engine.RankSpare)
	}
	if one.program != nil {
		one.rank(l.rankOf(one))
	}
	if one.canary != nil {
		one.canary.rank(l.rankOf(one.canary.live))
	}
}

func (l *Loader) rankOf(o *live) engine.Rank {
	_, own := l.own.Load(o.program.module.Digest())
	switch {
	case o.mode() == v1alpha1.Off:
		return engine.RankSpare
	case o.mode() == v1alpha1.Shadow:
		return engine.RankTrial
	case own:
		return engine.RankFirst
	}
	return engine.RankCommon
}

func (o *live) rank(r engine.Rank) {
	o.main.setRank(r)
	if o.twin != nil {
		o.twin.setRank(engine.RankSpare)
	}
}

// setRank may be called by any goroutine.
func (s *sandbox) setRank(r engine.Rank) {
	s.rank.Store(int32(r))
	if i := s.held.Load(); i != nil {
		i.SetRank(r)
	}
}

func (s *sandbox) ranked() engine.Rank { return engine.Rank(s.rank.Load()) }

// spared makes a sandbox one that nobody waits for.
func (s *sandbox) spared() *sandbox {
	s.setRank(engine.RankSpare)
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
func (s *sandbox) crowded(err error) bool {
	if errors.Is(err, engine.ErrClosed) {
		return true
	}
	if needs(err) == 0 || s.ranked() != engine.RankSpare {
		return false
	}
	s.again = time.Now().Add(crowdedPause)
	return true
}

func (s *sandbox) mayAsk() bool {
	return s.ranked() != engine.RankSpare || !time.Now().Before(s.again)
}

// needs is how much memory there was no room for, 0 if an error is another one.
func needs(err error) int64 {
	var full *engine.NoRoom
	if errors.As(err, &full) {
		return full.Needs
	}
	return 0
}

// tryCrowded has policies loaded again that were refused for want of memory, as
// soon as there is some.
func (l *Loader) tryCrowded() {
	l.reloading.Lock()
	defer l.reloading.Unlock()
	for _, one := range l.policies {
		if l.roomFor(one) {
			signal(l.wake)
			return
		}
	}
}

func (l *Loader) roomFor(o *live) bool { return o.needs > 0 && l.Engine.HasRoom(o.needs) }
