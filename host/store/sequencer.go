package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// batch is what one synced write takes: the requests drained from the queue,
// and the changes of those that passed, in order.
type batch struct {
	store    *Store
	requests []*request
	weight   int
	records  int

	revision int64
	changes  []change
	overlay  map[Key]*entry // states that only this batch knows; nil is deleted
}

// change is one event to be.
type change struct {
	key        Key
	engineKey  string
	data       []byte
	rev        int64
	prev, next *entry
	last       *entry // for a deletion: the state that its event shows
}

// sequence is the one writer: it alone decides what comes after what.
func (s *Store) sequence() {
	defer close(s.ended)
	var carried *request
	for {
		b := &batch{store: s}
		if carried == nil {
			select {
			case carried = <-s.queue:
			case <-s.afterDoubt():
				_ = s.settle() // those who write are told
				continue
			case <-s.stop:
				s.refuse(nil)
				return
			}
		}
		carried = b.drain(carried)
		s.commit(b)
		if s.closed() {
			s.refuse(carried)
			return
		}
	}
}

// refuse answers what will not be written any more.
func (s *Store) refuse(req *request) {
	for {
		if req != nil && req.taken.CompareAndSwap(false, true) {
			req.err = &Error{Key: req.writes[0].Key, Kind: ErrClosed}
			close(req.done)
		}
		select {
		case req = <-s.queue:
		default:
			return
		}
	}
}

// drain takes first and what is queued behind it, as far as one batch goes. It
// returns the request that no longer fitted.
func (b *batch) drain(first *request) *request {
	limits := b.store.limits
	for req := first; ; {
		// The revision and, for safety, one record more belong to the batch.
		fits := b.weight+req.weight <= limits.Bytes && b.records+len(req.writes) <= limits.Records
		if !fits && len(b.requests) > 0 {
			return req
		}
		b.weight += req.weight
		b.records += len(req.writes)
		b.requests = append(b.requests, req)
		select {
		case req = <-b.store.queue:
		default:
			return nil
		}
	}
}

// commit decides each request, writes what passed, shows it and answers.
func (s *Store) commit(b *batch) {
	start := time.Now()
	b.take()
	taken := len(b.requests)
	err := s.settle()
	if err == nil {
		err = s.try(b, start)
	}
	if errors.Is(err, ErrNoSpace) && b.keepFreeing(err) {
		err = s.try(b, start)
	}
	for _, req := range b.requests {
		req.answer(err)
	}
	s.stats.batch(taken, len(b.changes), time.Since(start))
}

// take keeps the requests whose callers have not given up.
func (b *batch) take() {
	taken := b.requests[:0]
	for _, req := range b.requests {
		if req.taken.CompareAndSwap(false, true) {
			taken = append(taken, req)
		}
	}
	b.requests = taken
}

// try decides the requests, writes what passed and shows it.
func (s *Store) try(b *batch, start time.Time) error {
	b.revision, b.changes, b.overlay = s.Revision(), nil, make(map[Key]*entry, b.records)
	for _, req := range b.requests {
		b.decide(req)
	}
	if len(b.changes) > 0 {
		if err := s.write(b); err != nil {
			return err
		}
	}
	s.publish(b, start)
	return nil
}

// keepFreeing answers what frees no room, and says whether the rest alone may find
// some.
func (b *batch) keepFreeing(err error) bool {
	taken := len(b.requests)
	kept := b.requests[:0]
	for _, req := range b.requests {
		if req.frees() {
			kept = append(kept, req)
			continue
		}
		req.answer(err)
	}
	b.requests = kept
	return len(kept) > 0 && len(kept) < taken
}

// frees says that a request deletes, or writes what is being deleted.
func (req *request) frees() bool {
	for i := range req.writes {
		if w := &req.writes[i]; w.Kind != Delete && (w.Kind != Update || w.Object.GetDeletionTimestamp() == nil) {
			return false
		}
	}
	return true
}

// answer ends a request; err is of the whole batch.
func (req *request) answer(err error) {
	if err != nil && req.err == nil {
		req.rev, req.objs, req.err = 0, nil, err
	}
	close(req.done)
}

// write makes the batch durable. An engine that failed in the middle is not
// asked again; one that refused may take the next batch, and one that is
// unavailable when what became of this one is known.
func (s *Store) write(b *batch) error {
	err := s.engine.Commit(context.Background(), b.engineBatch())
	switch {
	case err == nil, errors.Is(err, ErrNoSpace), errors.Is(err, ErrTooLarge):
		return err
	case errors.Is(err, ErrUnavailable):
		s.doubt = b
		return err
	}
	return s.fail(err)
}

// doubtTime is how often the engine is asked for what became of a batch while
// nobody writes.
const doubtTime = time.Second

// afterDoubt never comes while there is no doubt.
func (s *Store) afterDoubt() <-chan time.Time {
	if s.doubt == nil || s.Err() != nil {
		return nil
	}
	return time.After(doubtTime)
}

// settle shows the batch that was in doubt if it turns out to be written, so
// that what is decided next is decided on what the disk has.
func (s *Store) settle() error {
	if err := s.Err(); err != nil || s.doubt == nil {
		return err
	}
	rev, err := s.engine.Scan(context.Background(), formatKey, true, func(Record) error { return nil })
	switch {
	case errors.Is(err, ErrUnavailable):
		return err
	case err != nil:
		return s.fail(err)
	case rev == s.doubt.revision:
		s.publish(s.doubt, time.Now())
	case rev != s.Revision():
		return s.fail(fmt.Errorf("%w: it is at revision %d, which is neither before nor behind the last batch (%d, %d)", ErrCorrupt, rev, s.Revision(), s.doubt.revision))
	}
	s.doubt = nil
	return nil
}

// decide checks a request against the state that the requests before it leave,
// and adds its changes if all of its writes may be.
func (b *batch) decide(req *request) {
	states := make([]*entry, len(req.writes))
	for i, w := range req.writes {
		states[i] = b.state(w.Key)
		if req.err = w.check(states[i]); req.err == nil {
			req.err = b.require(w.Requires)
		}
		if req.err != nil {
			return
		}
	}
	req.objs = make([]Object, len(req.writes))
	for i, w := range req.writes {
		req.objs[i] = b.apply(w, states[i])
	}
	req.rev = b.revision
}

func (b *batch) state(k Key) *entry {
	if e, ok := b.overlay[k]; ok {
		return e
	}
	r := b.store.lookup(k.Resource)
	if r == nil {
		return nil
	}
	return r.get(k.Namespace, k.Name)
}

func (w *write) check(have *entry) error {
	switch {
	case w.Kind == Create && have != nil:
		return &Error{Key: w.Key, Kind: ErrExists, Have: have.rev}
	case w.Kind != Create && have == nil:
		return &Error{Key: w.Key, Kind: ErrNotFound}
	case w.Expect != 0 && w.Expect != have.rev:
		return &Error{Key: w.Key, Kind: ErrConflict, Have: have.rev}
	}
	return nil
}

// require refuses what was to go with an object that has gone, or is going.
func (b *batch) require(k Key) error {
	if k.Name == "" {
		return nil
	}
	have := b.state(k)
	switch {
	case have == nil:
		return &Error{Key: k, Kind: ErrConflict}
	case have.object().GetDeletionTimestamp() != nil:
		return &Error{Key: k, Kind: ErrConflict, Have: have.rev}
	}
	return nil
}

// idle reports an update to the bytes that are there already.
func (w *write) idle(have *entry) bool {
	return w.Kind == Update && w.sum == have.sum && len(w.data) == have.size
}

// apply gives the change a revision that no other has: a watch that was cut
// behind its event goes on with the next one of the same commit.
func (b *batch) apply(w write, have *entry) Object {
	if w.idle(have) {
		return have.object()
	}
	b.revision++
	c := change{key: w.Key, engineKey: w.engineKey, data: w.data, rev: b.revision, prev: have}
	shown := &entry{namespace: w.Key.Namespace, name: w.Key.Name, rev: b.revision, cache: b.store.cache}
	if w.Kind == Delete {
		shown.obj, shown.size = deleted(have.object(), b.revision), have.size
		c.last = shown
	} else {
		w.Object.SetResourceVersion(strconv.FormatInt(b.revision, 10))
		shown.obj, shown.sum, shown.size = w.Object, w.sum, len(w.data)
		if shown.packed = b.store.pack(w.Key.Resource, w.Object, w.data); shown.packed != nil {
			shown.obj = nil
		}
		shown.keepStored(w.data)
		c.next = shown
	}
	b.overlay[w.Key] = c.next
	b.changes = append(b.changes, c)
	return shown.object()
}

// engineBatch holds the last state of each key that the batch touched.
func (b *batch) engineBatch() Batch {
	eb := Batch{Revision: b.revision, Puts: make([]Record, 0, len(b.overlay))}
	eb.Frees = !slices.ContainsFunc(b.requests, func(req *request) bool { return !req.frees() })
	for i := range b.changes {
		c := &b.changes[i]
		if c.next != b.overlay[c.key] {
			continue // overwritten within the batch
		}
		if c.next != nil {
			eb.Puts = append(eb.Puts, Record{Key: c.engineKey, Value: c.data, Revision: c.rev})
			continue
		}
		eb.Deletes = append(eb.Deletes, c.engineKey)
	}
	return eb
}
