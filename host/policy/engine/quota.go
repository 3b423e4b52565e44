package engine

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// Rank says who gives memory up for whom, where all guests together may have no
// more: an instance is closed for one of a higher rank.
type MemoryPriority int32

const (
	PrioritySpare  MemoryPriority = iota - 2 // nobody waits for its answers
	PriorityTrial                            // it is asked, and decides nothing
	PriorityCommon                           // it decides
	PriorityFirst                            // without it nothing is decided
)

// firstShare of the bound is for those of RankFirst alone, so that they need not
// wait for others' calls to end.
const firstShare = 4

// room is what all instances of an engine have together, their memories and
// their stacks, and what they may have.
type memoryQuota struct {
	max  int64 // 0 is no bound
	have atomic.Int64

	mu        sync.Mutex
	instances map[*Instance]struct{}
	left      *sync.Cond // told of each that has given its memory back
}

func (r *memoryQuota) init(most int64) {
	r.max, r.instances, r.left = most, map[*Instance]struct{}{}, sync.NewCond(&r.mu)
}

// NoRoom says that all guests together have what memory they may have.
type MemoryQuotaError struct {
	// Needs is what the instance would have had.
	Needs int64
	// Have is what all have together, Most what those of its rank may take it to.
	Have, Max int64
}

func (e *MemoryQuotaError) Error() string {
	return fmt.Sprintf("there is no room for %s of memory: all policies' guests have %s of the %s that this one's rank may fill. Remove policies or set spec.mode: Off, or start the host with a larger --guest-memory",
		mib(e.Needs), mib(e.Have), mib(e.Max))
}

func mib(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }

// maxFor is how far one of a rank may take what all have.
func (r *memoryQuota) maxFor(rank MemoryPriority) int64 {
	if rank == PriorityFirst {
		return r.max
	}
	return r.max - r.max/firstShare
}

// add counts what nobody can refuse.
func (r *memoryQuota) add(n int64) {
	r.have.Add(n)
	guests.Add(n)
}

// take counts n bytes of memory, for which those of lower rank are closed, the
// lowest and largest first. It is false where that does not suffice. Who is in a
// call gives way when that ends, and is waited for: fuel bounds the call, and who
// waits there itself waits for lower ranks still.
func (r *memoryQuota) take(n int64, rank MemoryPriority) bool {
	if r.fit(n, rank) {
		return true
	}
	for _, one := range r.below(rank) {
		if one.Close(); r.fit(n, rank) {
			return true
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for !r.fit(n, rank) {
		if !r.leaving(rank) {
			return false
		}
		r.left.Wait()
	}
	return true
}

// leaving says whether somebody of lower rank is about to give way. r.mu is held.
func (r *memoryQuota) leaving(rank MemoryPriority) bool {
	for one := range r.instances {
		if one.memory.ranked() < rank && one.Closed() {
			return true
		}
	}
	return false
}

func (r *memoryQuota) fit(n int64, rank MemoryPriority) bool {
	for {
		have := r.have.Load()
		if r.max > 0 && have+n > r.maxFor(rank) {
			return false
		}
		if r.have.CompareAndSwap(have, have+n) {
			guests.Add(n)
			return true
		}
	}
}

// below lists who gives way to a rank.
func (r *memoryQuota) below(rank MemoryPriority) []*Instance {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*Instance
	for one := range r.instances {
		if one.memory.ranked() < rank {
			all = append(all, one)
		}
	}
	slices.SortFunc(all, func(a, b *Instance) int {
		if by := cmp.Compare(a.memory.ranked(), b.memory.ranked()); by != 0 {
			return by
		}
		return cmp.Compare(b.memory.committed.Load(), a.memory.committed.Load())
	})
	return all
}

func (r *memoryQuota) enter(i *Instance) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.instances[i] = struct{}{}
}

func (r *memoryQuota) leave(i *Instance) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.instances, i)
	r.left.Broadcast()
}

func (r *memoryQuota) full(needs int64, rank MemoryPriority) *MemoryQuotaError {
	return &MemoryQuotaError{Needs: needs, Have: r.have.Load(), Max: r.maxFor(rank)}
}

// MemoryBound is how much memory this engine's instances may have together; 0
// is no bound.
func (e *Engine) MemoryBound() int64 { return e.quota.max }

// HasRoom says whether an instance of RankCommon could have so much memory now,
// by those that would give way to it.
func (e *Engine) MemoryAvailable(n int64) bool {
	if e.quota.max == 0 {
		return true
	}
	for _, one := range e.quota.below(PriorityCommon) {
		n -= int64(one.memory.committed.Load())
	}
	return e.quota.have.Load()+n <= e.quota.maxFor(PriorityCommon)
}
