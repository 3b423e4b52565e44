package kind

import (
	"hash/maphash"
	"slices"
	"sync"
)

// memory remembers values by bytes, within a bound: two generations, of which
// the old one is forgotten when the young one is full. What is asked for again
// stays.
type memory[V any] struct {
	seed maphash.Seed

	mu sync.Mutex
	// once holds hashes of what came once, by the rest of their division, newest
	// first: parts of one object that shared a single place would drive each other
	// out for ever. Most of what never comes again is not worth being kept.
	once       [256][4]uint64
	young, old map[string]V
	bytes      int
}

const (
	// longestLike bounds what values are remembered by, maxLikes a generation.
	longestLike = 8 << 10
	maxLikes    = 512 << 10
)

func newMemory[V any]() memory[V] {
	return memory[V]{seed: maphash.MakeSeed(), young: map[string]V{}}
}

func (m *memory[V]) find(like []byte) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known, ok := m.young[string(like)]; ok {
		return known, true
	}
	known, ok := m.old[string(like)]
	if ok {
		delete(m.old, string(like))
		m.put(string(like), known)
	}
	return known, ok
}

// again tells whether it comes not for the first time.
func (m *memory[V]) again(like []byte) bool {
	hash := maphash.Bytes(m.seed, like)
	m.mu.Lock()
	defer m.mu.Unlock()
	places := &m.once[hash%uint64(len(m.once))]
	if slices.Contains(places[:], hash) {
		return true
	}
	copy(places[1:], places[:])
	places[0] = hash
	return false
}

func (m *memory[V]) keep(like []byte, known V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.put(string(like), known)
}

// put remembers. Called with mu held.
func (m *memory[V]) put(like string, known V) {
	if m.bytes+len(like) > maxLikes {
		m.old, m.young, m.bytes = m.young, map[string]V{}, 0
	}
	m.young[like] = known
	m.bytes += len(like)
}
