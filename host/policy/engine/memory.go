package engine

import (
	"syscall"

	"github.com/tetratelabs/wazero/experimental"
)

// memory is a guest's memory outside of Go's heap: address space for all that
// it may ever have is set aside at once, so that growing moves nothing, and
// freeing it gives it back to the kernel at once.
type memory struct {
	all       []byte
	committed uint64
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

// Reallocate implements experimental.LinearMemory.
func (m *memory) Reallocate(size uint64) []byte {
	if size > uint64(len(m.all)) {
		return nil
	}
	if size > m.committed {
		if err := syscall.Mprotect(m.all[m.committed:size], syscall.PROT_READ|syscall.PROT_WRITE); err != nil {
			return nil
		}
		m.committed = size
	}
	return m.all[:size:size]
}

// Free implements experimental.LinearMemory.
func (m *memory) Free() {
	if m.all == nil {
		return
	}
	_ = syscall.Munmap(m.all)
	m.all, m.committed = nil, 0
}
