package store

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/btree"
)

// entry is one committed state of one object; only its encodings change.
type entry struct {
	namespace, name string
	obj             Object
	rev             int64
	sum             uint64
	size            int
	encodings       encodings
	cache           *encodingCache
	packed          *packed // instead of obj, for some resources
}

func (e *entry) compare(namespace, name string) int {
	if c := strings.Compare(e.namespace, namespace); c != 0 {
		return c
	}
	return strings.Compare(e.name, name)
}

// resource holds the objects of one kind. Readers of one object look into
// latest. Those of many take a snapshot of tree and indexes, which are brought up
// to date when somebody asks, or when much is left to do: an object that was
// made and soon changed is put in order once, and nodes of the trees are copied
// for readers alone that are there.
type resource struct {
	name string
	// replaced are the changes that readers do not see yet, coming the events of
	// them. The log takes copies, so the memory serves the next batch too.
	replaced []replacement
	coming   []Event

	order   sync.Mutex // taken before mu, after the log's
	tree    *tree
	indexes []*index

	mu sync.RWMutex
	// latest is what readers see, by name: most reads are of one object, and a
	// way through the tree costs ten times a look here.
	latest  map[objectName]*entry
	rev     atomic.Int64  // of the newest change in latest
	pending []replacement // in latest, not yet in tree and indexes
	// current is a snapshot of just that, nil while nobody has asked for one.
	current atomic.Pointer[snapshot]

	log  *log
	pins pins
}

type objectName struct{ namespace, name string }

type replacement struct{ prev, next *entry }

func newResource(name string, floor int64, opts *Options) *resource {
	r := &resource{name: name, tree: btree.NewG(degree, lessEntry), log: newLog(floor, opts), latest: map[objectName]*entry{}}
	r.pins.history = opts.History
	for _, of := range []string{name, AllResources} {
		for indexName, fn := range opts.Indexes[of] {
			r.indexes = append(r.indexes, &index{name: indexName, fn: fn, tree: btree.NewG(degree, lessIndexed)})
		}
	}
	r.publish(floor, nil, time.Time{})
	return r
}

// replace puts next in prev's place; either may be nil.
func (r *resource) replace(prev, next *entry) {
	r.replaced = append(r.replaced, replacement{prev, next})
}

// publish shows readers the state as of rev together with the events that led
// to it: whoever holds the log's lock sees both or neither. It returns
// what wakes the watchers.
func (r *resource) publish(rev int64, events []Event, now time.Time) []wake {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	r.show(rev)
	first := r.log.next
	all := r.log.append(events, now)
	return append(r.note(max(first, r.log.first)), all)
}

// show makes the latest states visible to all readers at once: whoever has seen
// an object's new state finds it in every list.
func (r *resource) show(rev int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rev.Store(rev)
	r.pending = append(r.pending, r.replaced...)
	r.current.Store(nil)
	for _, c := range r.replaced {
		if c.next != nil {
			r.latest[objectName{c.next.namespace, c.next.name}] = c.next
			continue
		}
		delete(r.latest, objectName{c.prev.namespace, c.prev.name})
	}
	if clear(r.replaced); cap(r.replaced) > 4*maxRead {
		r.replaced = nil // it held all that was loaded
	}
	r.replaced = r.replaced[:0]
}

// count is how many objects there are.
func (r *resource) count() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.latest)
}

// come forgets the events that have come into the log.
func (r *resource) come() {
	if clear(r.coming); cap(r.coming) > 4*maxRead {
		r.coming = nil
	}
	r.coming = r.coming[:0]
}

// get returns the newest state of an object, nil if there is none.
func (r *resource) get(namespace, name string) *entry {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.latest[objectName{namespace, name}]
}

// before returns the state that was in force at rev, by undoing in the newest
// what came after; ok is false when the log does not reach so far back.
func (r *resource) before(rev int64) (*snapshot, bool) {
	snap, events, ok := r.since(rev)
	if !ok {
		return nil, false
	}
	r.pins.mu.Lock() // a tree allows one Clone at a time
	old := &snapshot{rev: rev, tree: snap.tree.Clone()}
	r.pins.mu.Unlock()
	for i := len(events) - 1; i >= 0; i-- {
		if events[i].prev == nil {
			old.tree.Delete(events[i].state)
			continue
		}
		old.tree.ReplaceOrInsert(events[i].prev)
	}
	return old, true
}

// since returns the newest state and the events that lead from rev to it.
func (r *resource) since(rev int64) (*snapshot, []Event, bool) {
	r.log.mu.RLock()
	defer r.log.mu.RUnlock()
	events, ok := r.log.since(rev)
	return r.snapshot(), events, ok
}

// pins keeps the snapshots that lists in pages still need, by the revision that
// the pages show. What falls out is derived again from the log, if it can be.
type pins struct {
	history time.Duration

	mu    sync.Mutex
	byRev map[int64]pin
}

type pin struct {
	snapshot *snapshot
	since    time.Time
}

const maxPins = 64

func (p *pins) add(rev int64, s *snapshot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.byRev[rev]; ok {
		return
	}
	if p.byRev == nil {
		p.byRev = map[int64]pin{}
	}
	if len(p.byRev) >= maxPins {
		p.dropOldest()
	}
	p.byRev[rev] = pin{s, time.Now()}
}

func (p *pins) dropOldest() {
	oldest := int64(0)
	for rev := range p.byRev {
		if oldest == 0 || rev < oldest {
			oldest = rev
		}
	}
	delete(p.byRev, oldest)
}

func (p *pins) get(rev int64) *snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.byRev[rev].snapshot
}

func (p *pins) release(rev int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.byRev, rev)
}

func (p *pins) forget(before int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for rev := range p.byRev {
		if rev < before {
			delete(p.byRev, rev)
		}
	}
}

func (p *pins) expire(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for rev, pin := range p.byRev {
		if now.Sub(pin.since) > p.history {
			delete(p.byRev, rev)
		}
	}
}
