package schedule

import "sync/atomic"

// stats are figures that the loop publishes for everybody.
type stats struct {
	cycles, bound, bindErrors                  atomic.Uint64
	active, backoff, waiting, gated, unclaimed atomic.Int64
	assumed, remembered, logged                atomic.Int64
}

// Stats are a scheduler's figures.
type Stats struct {
	// Cycles, Bound and BindErrors count from the start on.
	Cycles, Bound, BindErrors uint64
	// Pods without a node by state, those reserved and not yet bound, and those
	// that no profile claims.
	Active, Backoff, Waiting, Gated, Assumed, Unclaimed int64
	// RememberedBytes is about what remembered answers take.
	RememberedBytes int64
	// LogBytes is about what the log of changes and traces takes.
	LogBytes int64
}

// publish writes down the loop's figures.
func (s *Scheduler) publish() {
	active, backoff, waiting, gated, _ := s.core.queue.Len()
	s.stats.active.Store(int64(active))
	s.stats.backoff.Store(int64(backoff))
	s.stats.waiting.Store(int64(waiting))
	s.stats.gated.Store(int64(gated))
	s.stats.unclaimed.Store(int64(len(s.core.unclaimed)))
	s.stats.assumed.Store(int64(len(s.core.assumed)))
	s.stats.remembered.Store(s.core.decider.Remembered())
	s.stats.logged.Store(int64(s.core.cluster.LogBytes() + s.core.traces.size()))
}

// Stats returns the scheduler's figures.
func (s *Scheduler) Stats() Stats {
	return Stats{
		Cycles: s.stats.cycles.Load(), Bound: s.stats.bound.Load(), BindErrors: s.stats.bindErrors.Load(),
		Active: s.stats.active.Load(), Backoff: s.stats.backoff.Load(), Waiting: s.stats.waiting.Load(),
		Gated: s.stats.gated.Load(), Assumed: s.stats.assumed.Load(), Unclaimed: s.stats.unclaimed.Load(),
		RememberedBytes: s.stats.remembered.Load(), LogBytes: s.stats.logged.Load(),
	}
}
