package store

import (
	"sync"
	"sync/atomic"
	"weak"
)

// encodings are those of one state of one object. It is a list, since
// there are two or three formats at most.
type encodings struct{ head atomic.Pointer[encoding] }

type encoding struct {
	format string
	next   atomic.Pointer[encoding]
	once   sync.Once
	data   []byte
	err    error
}

// shared answers from the entry's encodings. Events that were built by hand, in
// tests of other packages, have no entry and are encoded each time.
func (e *entry) shared(format string, obj Object, encode func(Object) ([]byte, error)) ([]byte, error) {
	if e == nil {
		return encode(obj)
	}
	slot := e.encodings.slot(format)
	slot.once.Do(func() {
		if slot.data = e.fromStored(format); slot.data == nil {
			slot.data, slot.err = encode(obj)
		}
		if slot.err == nil && e.cache != nil {
			e.cache.keep(&e.encodings, len(slot.data)+encodingOverhead)
		}
	})
	return slot.data, slot.err
}

// stored names the slot of the very bytes that the engine was given. It is
// there from the commit on, until an encoding is made of it or the cache empties
// them; and it is the last of the list.
const stored = ""

// keepStored lets the first encoding be made of the stored bytes.
func (e *entry) keepStored(data []byte) {
	if e.cache.sharer == nil {
		return
	}
	e.encodings.head.Store(&encoding{format: stored, data: data})
	e.cache.keep(&e.encodings, len(data)+encodingOverhead)
}

// fromStored makes an encoding of the stored bytes, nil where it cannot. It
// takes their place: there is one format that is made of them.
func (e *entry) fromStored(format string) []byte {
	var before *encoding
	for s := e.encodings.head.Load(); s != nil; before, s = s, s.next.Load() {
		if s.format != stored {
			continue
		}
		data, ok := e.cache.sharer.Share(format, s.data, e.rev)
		if !ok {
			return nil
		}
		if before != nil {
			before.next.Store(nil)
		}
		return data
	}
	return nil
}

// slot finds the format's slot or adds it. A slot that holds an error stays: an
// object that cannot be encoded now cannot be encoded later.
func (m *encodings) slot(format string) *encoding {
	for {
		head := m.head.Load()
		for s := head; s != nil; s = s.next.Load() {
			if s.format == format {
				return s
			}
		}
		fresh := &encoding{format: format}
		fresh.next.Store(head)
		if m.head.CompareAndSwap(head, fresh) {
			return fresh
		}
	}
}

// encodingOverhead stands for what an encoding takes beside its bytes.
const encodingOverhead = 1024

// encodingCache bounds the bytes that all encodings take, and for how long they
// are kept: the oldest are forgotten first. Most encodings are shown when they
// are new and never again, and the bytes of ten thousand objects that nobody asks
// for would be looked through by each collection. Whoever still writes such bytes
// to a client goes on with them undisturbed. It keeps no encoding alive: it lies
// within the state of an object, which goes when nobody else needs it.
type encodingCache struct {
	capacity int
	// sharer is the codec, if it is one.
	sharer Sharer

	mu    sync.Mutex
	bytes int
	queue []cached
	first int
	// age counts calls of expire.
	age uint32
}

type cached struct {
	of    weak.Pointer[encodings]
	bytes uint32
	since uint32 // age of the cache
}

func (s *encodingCache) keep(m *encodings, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, cached{weak.Make(m), uint32(bytes), s.age})
	s.bytes += bytes
	for s.bytes > s.capacity && s.first < len(s.queue) {
		s.drop()
	}
	if s.first > 1024 && s.first > len(s.queue)/2 {
		s.compact()
	}
}

// drop forgets the oldest encodings. Called with mu held.
func (s *encodingCache) drop() {
	old := s.queue[s.first]
	s.queue[s.first] = cached{}
	s.first++
	s.bytes -= int(old.bytes)
	if m := old.of.Value(); m != nil {
		m.head.Store(nil)
	}
}

// compact gives back the room of what was dropped. Called with mu held.
func (s *encodingCache) compact() {
	s.queue = append([]cached(nil), s.queue[s.first:]...)
	s.first = 0
}

// expire forgets the encodings that something was put into so many calls ago.
func (s *encodingCache) expire(calls uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.age++
	had := s.first
	for s.first < len(s.queue) && s.age-s.queue[s.first].since > calls {
		s.drop()
	}
	if s.first > had {
		s.compact()
	}
}
