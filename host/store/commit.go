package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
)

var errBadOp = errors.New("not a valid write")

// request is one caller's commit on its way through the sequencer.
type request struct {
	writes []write
	weight int
	taken  atomic.Bool // by the sequencer, or by a caller who gave up
	done   chan struct{}

	// the answer, readable once done is closed
	rev  int64
	objs []Object
	err  error
}

type write struct {
	Op
	engineKey string
	data      []byte
	sum       uint64
}

// Commit writes all ops or none and returns when they are durable and visible.
// Each change gets a revision of its own, in the order of ops; rev is the last of
// them. objs are the committed objects in that order: the new states, and for
// Delete the last one at the revision of the deletion. An Update that changes no
// byte keeps its revision; if nothing changes at all, rev is the store's newest
// revision. No key may occur twice.
//
// ctx bounds the wait for the sequencer; once it has taken the commit, Commit
// waits for the outcome, so that its answer is always certain.
//
// # Errors
//
// *Error with ErrExists, ErrNotFound, ErrConflict or ErrTooLarge, naming the
// key, which for an ErrConflict may be what an op Requires; ErrClosed;
// ErrNoSpace; the codec's; ErrUnavailable, after which the commit may still turn
// out to be written; any other of the engine's, after which the store takes no
// more writes (see Failed).
func (s *Store) Commit(ctx context.Context, ops ...Op) (rev int64, objs []Object, err error) {
	if len(ops) == 0 {
		return s.Revision(), nil, nil
	}
	req, err := s.prepare(ops)
	if err != nil {
		return 0, nil, err
	}
	if s.closed() {
		return 0, nil, &Error{Key: ops[0].Key, Kind: ErrClosed}
	}
	select {
	case s.queue <- req:
	case <-ctx.Done():
		return 0, nil, ctx.Err()
	case <-s.stop:
		return 0, nil, &Error{Key: ops[0].Key, Kind: ErrClosed}
	}
	return s.await(ctx, req)
}

func (s *Store) await(ctx context.Context, req *request) (int64, []Object, error) {
	select {
	case <-req.done:
		return req.rev, req.objs, req.err
	case <-s.ended:
		// It may have been queued after the sequencer looked for the last time.
		if req.taken.CompareAndSwap(false, true) {
			return 0, nil, &Error{Key: req.writes[0].Key, Kind: ErrClosed}
		}
	case <-ctx.Done():
		if req.taken.CompareAndSwap(false, true) {
			return 0, nil, ctx.Err()
		}
	}
	<-req.done
	return req.rev, req.objs, req.err
}

// prepare does what needs no order: checks and encodes.
func (s *Store) prepare(ops []Op) (*request, error) {
	if len(ops) > s.limits.Records {
		return nil, &Error{Key: ops[0].Key, Kind: ErrTooLarge}
	}
	req := &request{writes: make([]write, len(ops)), done: make(chan struct{})}
	for i, op := range ops {
		w, err := s.prepareOp(op)
		if err != nil {
			return nil, err
		}
		req.writes[i] = w
		req.weight += len(w.engineKey) + len(w.data) + RecordOverhead
		if req.weight > s.limits.Bytes {
			return nil, &Error{Key: ops[0].Key, Kind: ErrTooLarge}
		}
	}
	if len(ops) == 1 {
		return req, nil
	}
	seen := make(map[Key]bool, len(ops))
	for _, op := range ops {
		if seen[op.Key] {
			return nil, fmt.Errorf("%s: %w: named twice in one commit", op.Key, errBadOp)
		}
		seen[op.Key] = true
	}
	return req, nil
}

func (s *Store) prepareOp(op Op) (write, error) {
	if err := op.Key.check(); err != nil {
		return write{}, err
	}
	w := write{Op: op, engineKey: op.Key.encode()}
	switch op.Kind {
	case Delete:
		return w, nil
	case Create:
		if op.Expect != 0 {
			return write{}, fmt.Errorf("%s: %w: a create expects no revision", op.Key, errBadOp)
		}
	case Update:
	default:
		return write{}, fmt.Errorf("%s: %w: kind %d", op.Key, errBadOp, op.Kind)
	}
	if op.Object == nil {
		return write{}, fmt.Errorf("%s: %w: no object", op.Key, errBadOp)
	}
	if op.Object.GetName() != op.Key.Name || op.Object.GetNamespace() != op.Key.Namespace {
		return write{}, fmt.Errorf("%s: %w: the object is %s/%s", op.Key, errBadOp, op.Object.GetNamespace(), op.Object.GetName())
	}
	if s.shared(op) {
		// The caller hands back what readers share: take a copy, theirs stays.
		w.Object = op.Object.DeepCopyObject().(Object)
	}
	w.Object.SetResourceVersion("")
	s.fields.share(w.Object)
	data, err := s.codec.Encode(w.Object)
	if err != nil {
		return write{}, fmt.Errorf("encode %s: %w", op.Key, err)
	}
	if s.interner != nil {
		s.interner.Intern(w.Object, data)
	}
	w.data, w.sum = data, checksum(data)
	return w, nil
}

// shared tells whether the object is the very one that readers see. Those have
// a version, so what was just made need not be looked up.
func (s *Store) shared(op Op) bool {
	if op.Object.GetResourceVersion() == "" {
		return false
	}
	cur, err := s.entry(op.Key)
	// What was packed meanwhile may have been lent to others before.
	return err == nil && (cur.packed != nil || cur.obj == op.Object)
}

// deleted is the object as a deletion shows it.
func deleted(obj Object, rev int64) Object {
	last := obj.DeepCopyObject().(Object)
	last.SetResourceVersion(strconv.FormatInt(rev, 10))
	return last
}
