package store

import (
	"sort"
	"sync"
	"sync/atomic"
	"time"
)

// log is the bounded history of one resource, shared by all its watchers: a
// ring of events by ascending revision. Watchers hold a revision and read on
// from there, and wait for a wake.
type log struct {
	maxEvents int
	maxBytes  int
	history   time.Duration

	mu    sync.RWMutex
	ring  []logged // len is a power of two
	first uint64   // position of the oldest event
	next  uint64   // position after the newest
	bytes int      // of superseded states that only the log keeps alive
	floor int64    // every event after this revision is here
	wake  wake

	topics map[topicKey]*topic

	last atomic.Pointer[reading]
}

// reading is what some watcher of all namespaces has just read. The thousand
// others that woke with it get the same events, instead of a copy each.
type reading struct {
	rev    int64  // after which it read
	next   uint64 // the log's end at that time
	events []Event
	seen   int64
}

type logged struct {
	Event
	at time.Time
}

func newLog(floor int64, opts *Options) *log {
	return &log{
		maxEvents: opts.MaxEvents,
		maxBytes:  opts.MaxHistoryBytes,
		history:   opts.History,
		floor:     floor,
		ring:      make([]logged, leastRing),
		wake:      newWake(0),
		topics:    map[topicKey]*topic{},
	}
}

func (l *log) at(pos uint64) *logged { return &l.ring[pos&uint64(len(l.ring)-1)] }

// superseded is what an event keeps in memory that the tree no longer holds.
func (e *logged) superseded() int {
	if e.prev == nil {
		return 0
	}
	return e.prev.size
}

// append adds events, and returns the channel whose closing tells the watchers.
// Called with mu held.
func (l *log) append(events []Event, now time.Time) wake {
	for _, ev := range events {
		if l.next-l.first == uint64(len(l.ring)) {
			l.grow()
		}
		slot := l.at(l.next)
		*slot = logged{ev, now}
		l.bytes += slot.superseded()
		l.next++
	}
	l.trim(now)
	woken := l.wake
	l.wake = newWake(0)
	return woken
}

func (l *log) grow() { l.resize(2 * len(l.ring)) }

func (l *log) resize(n int) {
	ring := make([]logged, n)
	for pos := l.first; pos < l.next; pos++ {
		ring[pos&uint64(len(ring)-1)] = *l.at(pos)
	}
	l.ring = ring
}

// trim drops events from the old end until the log is within its bounds. Called
// with mu held.
func (l *log) trim(now time.Time) {
	for l.first < l.next && (l.full() || now.Sub(l.at(l.first).at) > l.history) {
		l.floor = l.at(l.first).Revision
		l.drop()
	}
}

// forget drops all events up to rev.
func (l *log) forget(rev int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.first < l.next && l.at(l.first).Revision <= rev {
		l.drop()
	}
	l.floor = max(l.floor, rev)
	l.last.Store(nil)
}

// drop forgets the oldest event. Called with mu held.
func (l *log) drop() {
	gone := l.at(l.first)
	l.bytes -= gone.superseded()
	gone.state.settle()
	*gone = logged{}
	l.first++
}

func (l *log) full() bool {
	return l.next-l.first > uint64(l.maxEvents) || l.bytes > l.maxBytes
}

func (l *log) expire(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trim(now)
	l.last.Store(nil) // it keeps events alive
	l.shrink()
}

// leastRing is the length of a ring that has seen little.
const leastRing = 16

// shrink gives back most of a ring that was needed once. Called with mu held.
func (l *log) shrink() {
	n := len(l.ring)
	for n > leastRing && l.next-l.first <= uint64(n/8) {
		n /= 2
	}
	if n < len(l.ring) {
		l.resize(n)
	}
}

// after is the position of the first event after rev. Called with mu held.
func (l *log) after(rev int64) uint64 {
	n := int(l.next - l.first)
	return l.first + uint64(sort.Search(n, func(i int) bool { return l.at(l.first+uint64(i)).Revision > rev }))
}

// maxRead bounds what one read copies.
const maxRead = 512

// read returns the events after rev, the revision up to which it looked, and what to
// wait for when there are none.
func (l *log) read(rev int64) (events []Event, seen int64, more wake, err error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if rev < l.floor {
		return nil, rev, nil, ErrCompacted
	}
	last := l.last.Load()
	if last == nil || last.rev != rev || last.next != l.next {
		last = &reading{rev: rev, next: l.next}
		last.events, last.seen = l.collect(rev)
		l.last.Store(last)
	}
	return last.events, last.seen, l.wake, nil
}

// collect copies events, and says up to which revision it looked. Called with mu
// held.
func (l *log) collect(rev int64) (events []Event, seen int64) {
	seen = rev
	first := l.after(rev)
	if first < l.next {
		events = make([]Event, 0, min(l.next-first, maxRead))
	}
	for pos := first; pos < l.next && len(events) < maxRead; pos++ {
		seen = l.at(pos).Revision
		events = append(events, l.at(pos).Event)
	}
	return events, seen
}

// since returns the events after rev; ok is false when some are gone. Called
// with mu held.
func (l *log) since(rev int64) (events []Event, ok bool) {
	if rev < l.floor {
		return nil, false
	}
	for pos := l.after(rev); pos < l.next; pos++ {
		events = append(events, l.at(pos).Event)
	}
	return events, true
}

// newest is the revision of the last event. Called with mu held.
func (l *log) newest() int64 {
	if l.first == l.next {
		return l.floor
	}
	return l.at(l.next - 1).Revision
}

// pending reports whether the log has events after rev.
func (l *log) pending(rev int64) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.newest() > rev
}

func (l *log) extent() (events int, floor int64) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return int(l.next - l.first), l.floor
}

func (l *log) covers(rev int64) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return rev >= l.floor
}
