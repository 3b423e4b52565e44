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
type Rank int32

const (
	RankSpare  Rank = iota - 2 // nobody waits for its answers
	RankTrial                  // it is asked, and decides nothing
	RankCommon                 // it decides
	RankFirst                  // without it nothing is decided
)

// firstShare of the bound is for those of RankFirst alone, so that they need not
// wait for others' calls to end.
const firstShare = 4

// room is what all instances of an engine have together, their memories and
// their stacks, and what they may have.
type room struct {
	most int64 // 0 is no bound
	have atomic.Int64

	mu        sync.Mutex
	instances map[*Instance]struct{}
	left      *sync.Cond // told of each that has given its memory back
}

func (r *room) init(most int64) {
	r.most, r.instances, r.left = most, map[*Instance]struct{}{}, sync.NewCond(&r.mu)
}

// NoRoom says that all guests together have what memory they may have.
type NoRoom struct {
	// Needs is what the instance would have had.
	Needs int64
	// Have is what all have together, Most what those of its rank may take it to.
	Have, Most int64
}

func (e *NoRoom) Error() string {
	return fmt.Sprintf("there is no room for %s of memory: all policies' guests have %s of the %s that this one's rank may fill. Remove policies or set spec.mode: Off, or start the host with a larger --guest-memory",
		mib(e.Needs), mib(e.Have), mib(e.Most))
}

func mib(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }

// mostFor is how far one of a rank may take what all have.
func (r *room) mostFor(rank Rank) int64 {
	if rank == RankFirst {
		return r.most
	}
	return r.most - r.most/firstShare
}

// add counts what nobody can refuse.
func (r *room) add(n int64) {
	r.have.Add(n)
	guests.Add(n)
}

// take counts n bytes of memory, for which those of lower rank are closed, the
// lowest and largest first. It is false where that does not suffice. Who is in a
// call gives way when that ends, and is waited for: fuel bounds the call, and who
// waits there itself waits for lower ranks still.
func (r *room) take(n int64, rank Rank) bool {
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
func (r *room) leaving(rank Rank) bool {
	for one := range r.instances {
		if one.memory.ranked() < rank && one.Closed() {
			return true
		}
	}
	return false
}

func (r *room) fit(n int64, rank Rank) bool {
	for {
		have := r.have.Load()
		if r.most > 0 && have+n > r.mostFor(rank) {
			return false
		}
		if r.have.CompareAndSwap(have, have+n) {
			guests.Add(n)
			return true
		}
	}
}

// below lists who gives way to a rank.
func (r *room) below(rank Rank) []*Instance {
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

func (r *room) enter(i *Instance) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.instances[i] = struct{}{}
}

func (r *room) leave(i *Instance) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.instances, i)
	r.left.Broadcast()
}

func (r *room) full(needs int64, rank Rank) *NoRoom {
	return &NoRoom{Needs: needs, Have: r.have.Load(), Most: r.mostFor(rank)}
}

// MemoryBound is how much memory this engine's instances may have together; 0
// is no bound.
func (e *Engine) MemoryBound() int64 { return e.room.most }

// HasRoom says whether an instance of RankCommon could have so much memory now,
// by those that would give way to it.
func (e *Engine) HasRoom(n int64) bool {
	if e.room.most == 0 {
		return true
	}
	for _, one := range e.room.below(RankCommon) {
		n -= int64(one.memory.committed.Load())
	}
	return e.room.have.Load()+n <= e.room.mostFor(RankCommon)
}
