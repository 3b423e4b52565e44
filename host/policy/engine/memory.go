package engine

import (
	"fmt"
	"slices"
	"sync/atomic"
	"syscall"

	"github.com/tetratelabs/wazero/experimental"
)

// guests is what the memories, the stacks and the tables of all guests take.
var guests atomic.Int64

// GuestBytes is how much memory all guests of this process have now, and how
// much stack and tables. Those two are on Go's heap.
func GuestBytes() int64 { return guests.Load() }

// memory is a guest's memory outside of Go's heap: address space for all that
// it may ever have is set aside at once, so that growing moves nothing, and
// freeing it gives it back to the kernel at once.
type memory struct {
	room      *memoryQuota
	priority  atomic.Int32
	all       []byte
	committed atomic.Uint64
	beside    int64             // what the host keeps for the instance beside it
	refused   *MemoryQuotaError // what the call that runs was refused last
}

func (m *memory) ranked() MemoryPriority { return MemoryPriority(m.priority.Load()) }

// small is what the host keeps for an instance that is not counted.
const small = 32 << 10

// begin makes what an instance begins with, since wazero takes no refusal there.
// beside is what the host keeps for it: tables, references, segments, globals.
func (m *memory) begin(least, most uint64, beside int64) error {
	if beside > small {
		if rank := m.ranked(); !m.room.take(beside, rank) {
			return m.room.full(beside+int64(least), rank)
		}
		m.beside = beside
	}
	m.Allocate(0, most)
	switch {
	case m.Reallocate(least) != nil || most == 0:
		return nil
	case m.refused != nil:
		return m.refused
	}
	return fmt.Errorf("the machine has no memory of %s for it, which may grow to %s", mib(int64(least)), mib(int64(most)))
}

// Allocate implements experimental.MemoryAllocator.
func (m *memory) Allocate(_, most uint64) experimental.LinearMemory {
	if most == 0 || m.all != nil {
		return m
	}
	all, err := syscall.Mmap(-1, 0, int(most), syscall.PROT_NONE, syscall.MAP_ANON|syscall.MAP_PRIVATE|syscall.MAP_NORESERVE)
	if err == nil {
		m.all = all
	}
	return m
}

// Reallocate implements experimental.LinearMemory. It gives nil where there is
// no room, which to the guest is a memory.grow of -1.
func (m *memory) Reallocate(size uint64) []byte {
	if size > uint64(len(m.all)) {
		return nil
	}
	if had := m.committed.Load(); size > had {
		more := int64(size - had)
		if rank := m.ranked(); !m.room.take(more, rank) {
			m.refused = m.room.full(int64(size), rank)
			return nil
		}
		if !commit(m.all[had:size]) {
			m.room.add(-more)
			return nil
		}
		m.committed.Store(size)
	}
	return m.all[:size:size]
}

// piece is how much memory is put there or taken away at a time: about 150 us.
// The kernel does so under a lock of the whole process, for which the store's
// msync and Go's collector wait too.
const piece = 512 << 10

// commit makes pages usable and has the kernel put them there at once, which
// takes a fifth of the time that a fault at each of them would, and takes it
// where memory.grow has paid for it.
func commit(pages []byte) bool {
	if err := syscall.Mprotect(pages, syscall.PROT_READ|syscall.PROT_WRITE); err != nil {
		return false
	}
	for some := range slices.Chunk(pages, piece) {
		const populateWrite = 23
		err := syscall.Madvise(some, populateWrite)
		if err == syscall.EINVAL {
			return true // kernels before 5.14 do so at each fault
		}
		if err != nil {
			return false
		}
	}
	return true
}

// Free implements experimental.LinearMemory.
func (m *memory) Free() {
	m.room.add(-m.beside)
	m.beside = 0
	if m.all == nil {
		return
	}
	for some := range slices.Chunk(m.all[:m.committed.Load()], piece) {
		_ = syscall.Madvise(some, syscall.MADV_DONTNEED)
	}
	_ = syscall.Munmap(m.all)
	m.all = nil
	m.room.add(-int64(m.committed.Swap(0)))
}
