package badger

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/berth-dev/berth/host/store"
)

// Keys of the engine's own begin with '!', those of records with data, and
// each value with the revision of its record, so a record is one entry.
const (
	data      = '.'
	formatKey = "!format"
	stateKey  = "!state"
	format    = "2"

	// Format 1 had no sums, and the revision alone where the state is now.
	unsummed    = "1"
	revisionKey = "!revision"
)

// memTable bounds a transaction to 15% of it, and lies in memory once or twice.
const memTable = 48 << 20

// Engine is a Badger database.
type Engine struct {
	db    *badger.DB
	dir   string
	lock  *os.File
	space space
	log   *slog.Logger

	commits sync.Mutex // one after the other; guards ledger, witness and spare
	ledger  *ledger
	witness *witness
	spare   spare

	use    sync.RWMutex // read-held while db is read; held to exchange it
	outage atomic.Pointer[outage]
}

// closeTime is how long Badger may take to close. On a disk that refuses to be
// written it tries for ever.
const closeTime = 20 * time.Second

// Close gives the directory free.
func (e *Engine) Close() error { return e.closeWithin(closeTime) }

func (e *Engine) closeWithin(timeout time.Duration) error {
	e.commits.Lock()
	defer e.commits.Unlock()
	defer e.spare.release()
	if o := e.outage.Load(); o != nil {
		select {
		case <-o.closed:
			return unlockDir(e.lock)
		case <-time.After(timeout):
			return notClosed(timeout, e.dir)
		}
	}
	if err := closeWithin(e.db, timeout, e.dir); err != nil {
		return err
	}
	return errors.Join(e.witness.close(), unlockDir(e.lock))
}

func notClosed(timeout time.Duration, dir string) error {
	return fmt.Errorf("the store is not closed after %s: can %s be written, and is there room? What was acknowledged is in its write-ahead log, and is taken in at the next start",
		timeout, dir)
}

func closeWithin(db *badger.DB, timeout time.Duration, dir string) error {
	closed := make(chan error, 1)
	go func() { closed <- db.Close() }()
	select {
	case err := <-closed:
		return err
	case <-time.After(timeout):
		return notClosed(timeout, dir)
	}
}

// Limits leaves a quarter of Badger's own for its bookkeeping.
func (e *Engine) Limits() store.Limits {
	e.use.RLock()
	defer e.use.RUnlock()
	return store.Limits{
		Bytes:   int(e.db.MaxBatchSize() / 4 * 3),
		Records: int(e.db.MaxBatchCount() / 4 * 3),
	}
}

// Scan reads in a transaction, so it sees one moment.
func (e *Engine) Scan(ctx context.Context, prefix string, keysOnly bool, fn func(store.Record) error) (int64, error) {
	db, done, err := e.reading()
	if err != nil {
		return 0, err
	}
	defer done()
	var revision int64
	err = db.View(func(txn *badger.Txn) error {
		var err error
		if revision, err = readRevision(txn); err != nil {
			return err
		}
		it := txn.NewIterator(badger.IteratorOptions{Prefix: append([]byte{data}, prefix...)})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			if err := ctx.Err(); err != nil {
				return err
			}
			rec, err := decode(it.Item(), keysOnly)
			if err != nil {
				return err
			}
			if err := fn(rec); err != nil {
				return err
			}
		}
		return nil
	})
	return revision, err
}

func decode(item *badger.Item, keysOnly bool) (store.Record, error) {
	rec := store.Record{Key: string(item.Key()[1:])}
	if keysOnly {
		return rec, nil
	}
	value, err := item.ValueCopy(nil)
	if err != nil {
		return rec, fmt.Errorf("read %q: %w", rec.Key, err)
	}
	if len(value) < 8 {
		return rec, fmt.Errorf("read %q: %d bytes are too few for a record", rec.Key, len(value))
	}
	rec.Revision = int64(binary.BigEndian.Uint64(value))
	rec.Value = value[8:]
	return rec, nil
}

func readRevision(txn *badger.Txn) (int64, error) {
	found, err := readState(txn)
	return found.revision, err
}

// Commit writes one transaction; SyncWrites makes it durable.
func (e *Engine) Commit(ctx context.Context, b store.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := e.space.check(b); err != nil {
		return err
	}
	e.commits.Lock()
	defer e.commits.Unlock()
	if err := e.recover(); err != nil {
		return err
	}
	txn := e.db.NewTransaction(true)
	defer txn.Discard()
	// Badger has copied it all when a commit returns.
	room := rooms.Get().(*room)
	defer room.leave()
	next, err := room.fill(txn, e.ledger, b)
	if errors.Is(err, badger.ErrTxnTooBig) {
		return store.ErrTooLarge
	}
	if err != nil {
		return err
	}
	switch err := txn.Commit(); {
	case errors.Is(err, badger.ErrTxnTooBig):
		return store.ErrTooLarge
	case err != nil:
		return e.fail(err, next)
	}
	e.acknowledge(next)
	return nil
}

// acknowledge notes a commit that is durable. Without a witness of it the next
// start can tell less, and that is no reason to refuse what is on the disk.
func (e *Engine) acknowledge(p plan) {
	e.ledger.take(p)
	if err := e.witness.acknowledge(p.commit); err != nil {
		e.log.Warn("commits go unwitnessed: a loss of the newest ones would not be noticed", "err", err)
	}
}

// room holds a batch's keys and values in the engine's form while it is
// committed, one after the other in one piece of memory.
type room struct{ bytes []byte }

var rooms = sync.Pool{New: func() any { return new(room) }}

// largestRoom is what is kept from one commit to another.
const largestRoom = 1 << 20

func (r *room) leave() {
	if cap(r.bytes) <= largestRoom {
		rooms.Put(r)
	}
}

// fill puts a batch and the state that it leads to into the transaction.
func (r *room) fill(txn *badger.Txn, l *ledger, b store.Batch) (plan, error) {
	r.make(b)
	next := l.begin(b.Revision)
	for _, rec := range b.Puts {
		key, value := r.key(rec.Key), r.value(rec)
		if err := txn.Set(key, value); err != nil {
			return plan{}, err
		}
		l.put(&next, key, value)
	}
	for _, k := range b.Deletes {
		key := r.key(k)
		if err := txn.Delete(key); err != nil {
			return plan{}, err
		}
		l.remove(&next, key)
	}
	return next, txn.Set([]byte(stateKey), next.encode())
}

// make makes room for a batch, so that nothing moves while it fills.
func (r *room) make(b store.Batch) {
	size := 0
	for _, rec := range b.Puts {
		size += 1 + len(rec.Key) + 8 + len(rec.Value)
	}
	for _, k := range b.Deletes {
		size += 1 + len(k)
	}
	if cap(r.bytes) < size {
		r.bytes = make([]byte, 0, size)
	}
	r.bytes = r.bytes[:0]
}

func (r *room) key(k string) []byte {
	from := len(r.bytes)
	r.bytes = append(append(r.bytes, data), k...)
	return r.bytes[from:len(r.bytes):len(r.bytes)]
}

func (r *room) value(rec store.Record) []byte {
	from := len(r.bytes)
	r.bytes = append(binary.BigEndian.AppendUint64(r.bytes, uint64(rec.Revision)), rec.Value...)
	return r.bytes[from:len(r.bytes):len(r.bytes)]
}

// Compact rewrites value log files that are half garbage; only records above
// 1 MiB lie there. The rest Badger compacts by itself.
func (e *Engine) Compact(ctx context.Context) error {
	for ctx.Err() == nil {
		err := e.compactOne()
		if errors.Is(err, badger.ErrNoRewrite) || errors.Is(err, badger.ErrRejected) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// compactOne writes too, so it waits for commits as they do for each other.
func (e *Engine) compactOne() error {
	e.commits.Lock()
	defer e.commits.Unlock()
	if err := e.recover(); err != nil {
		return err
	}
	err := guarded(func() error { return e.db.RunValueLogGC(0.5) })
	if err == nil || errors.Is(err, badger.ErrNoRewrite) || errors.Is(err, badger.ErrRejected) {
		return err
	}
	return e.fail(err, e.ledger.begin(0))
}
