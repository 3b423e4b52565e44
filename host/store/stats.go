package store

import (
	"sync/atomic"
	"time"
)

// Buckets are the upper bounds of Stats.CommitLatency; the last count is what
// took longer.
var Buckets = [...]time.Duration{
	250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2 * time.Millisecond, 4 * time.Millisecond, 8 * time.Millisecond,
	16 * time.Millisecond, 32 * time.Millisecond, 64 * time.Millisecond,
	128 * time.Millisecond, 512 * time.Millisecond, 2 * time.Second,
}

// Stats is what a store has done since Open, for metrics.
type Stats struct {
	Revision   int64
	QueueDepth int
	// Batches were written, with Commits in them and Changes of objects.
	Batches, Commits, Changes uint64
	// BatchSizes counts batches of 1, 2–3, 4–7, 8–15, … commits.
	BatchSizes [12]uint64
	// CommitLatency counts batches by the time from their begin to their
	// answers, CommitTime is the sum.
	CommitLatency [len(Buckets) + 1]uint64
	CommitTime    time.Duration
	Resources     map[string]ResourceStats
}

// ResourceStats is about one kind.
type ResourceStats struct {
	Objects int
	// Events are in memory for watches and older lists.
	Events int
	// Compacted is the revision before which there is no history.
	Compacted int64
}

type counters struct {
	batches, commits, changes atomic.Uint64
	sizes                     [12]atomic.Uint64
	latency                   [len(Buckets) + 1]atomic.Uint64
	nanos                     atomic.Int64
}

func (c *counters) batch(commits, changes int, took time.Duration) {
	c.batches.Add(1)
	c.commits.Add(uint64(commits))
	c.changes.Add(uint64(changes))
	size := 0
	for n := commits; n > 1 && size < len(c.sizes)-1; n /= 2 {
		size++
	}
	c.sizes[size].Add(1)
	slot := 0
	for slot < len(Buckets) && took > Buckets[slot] {
		slot++
	}
	c.latency[slot].Add(1)
	c.nanos.Add(int64(took))
}

// Stats reads the counters.
func (s *Store) Stats() Stats {
	c := &s.stats
	stats := Stats{
		Revision:   s.Revision(),
		QueueDepth: len(s.queue),
		Batches:    c.batches.Load(),
		Commits:    c.commits.Load(),
		Changes:    c.changes.Load(),
		CommitTime: time.Duration(c.nanos.Load()),
		Resources:  map[string]ResourceStats{},
	}
	for i := range c.sizes {
		stats.BatchSizes[i] = c.sizes[i].Load()
	}
	for i := range c.latency {
		stats.CommitLatency[i] = c.latency[i].Load()
	}
	s.each(func(r *resource) {
		events, floor := r.log.extent()
		stats.Resources[r.name] = ResourceStats{Objects: r.count(), Events: events, Compacted: floor}
	})
	return stats
}
