package badger

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"

	"github.com/berth-dev/berth/host/store"
)

// Keys of the engine's own begin with '!', those of records with data, and
// each value with the revision of its record, so a record is one entry.
const (
	data        = '.'
	formatKey   = "!format"
	revisionKey = "!revision"
	format      = "1"
)

// memTable bounds a transaction to 15% of it, and lies in memory once or twice.
const memTable = 48 << 20

// Engine is a Badger database.
type Engine struct {
	db    *badger.DB
	lock  *os.File
	space space
}

// Open opens or makes the directory. Only one process may have it open.
//
// # Errors
//
// store.ErrFormat if the directory was written by another version.
func Open(dir string, logger *slog.Logger) (*Engine, error) {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	if err := repair(dir, logger); err != nil {
		return nil, errors.Join(err, unlockDir(lock))
	}
	db, err := badger.Open(configure(dir, logger))
	if err != nil {
		return nil, errors.Join(refusal(dir, err), unlockDir(lock))
	}
	e := &Engine{db: db, lock: lock, space: space{dir: dir, free: diskFree}}
	if err := e.checkFormat(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", dir, err), e.Close())
	}
	return e, nil
}

// configure keeps Badger's caches small, since the store above reads a record
// once, when it opens.
func configure(dir string, logger *slog.Logger) badger.Options {
	return badger.DefaultOptions(dir).
		WithLogger(quiet{logger}).
		WithSyncWrites(true).
		WithBypassLockGuard(true).  // lockDir holds the same lock already
		WithDetectConflicts(false). // the sequencer decides, and blobs don't meet
		WithMetricsEnabled(false).
		WithMemTableSize(memTable).
		WithNumMemtables(3).
		WithNumCompactors(2).
		WithValueLogFileSize(64 << 20).
		WithBlockCacheSize(16 << 20).
		WithCompression(options.Snappy)
}

func (e *Engine) checkFormat() error {
	return e.db.Update(func(txn *badger.Txn) error {
		item, err := txn.Get([]byte(formatKey))
		if err == nil {
			found, err := item.ValueCopy(nil)
			if err == nil && string(found) != format {
				err = fmt.Errorf("%w: engine format %q, this berth reads %q: start the berth that wrote it", store.ErrFormat, found, format)
			}
			return err
		}
		if !errors.Is(err, badger.ErrKeyNotFound) {
			return err
		}
		it := txn.NewIterator(badger.IteratorOptions{})
		defer it.Close()
		if it.Rewind(); it.Valid() {
			return fmt.Errorf("%w: a badger database that is not berth's", store.ErrFormat)
		}
		return txn.Set([]byte(formatKey), []byte(format))
	})
}

// closeTime is how long Badger may take to close. On a disk that refuses to be
// written it tries for ever.
const closeTime = 20 * time.Second

// Close gives the directory free.
func (e *Engine) Close() error { return e.closeWithin(closeTime) }

func (e *Engine) closeWithin(patience time.Duration) error {
	closed := make(chan error, 1)
	go func() { closed <- e.db.Close() }()
	select {
	case err := <-closed:
		return errors.Join(err, unlockDir(e.lock))
	case <-time.After(patience):
		return fmt.Errorf("the store is not closed after %s: can %s be written, and is there room? What was acknowledged is in its write-ahead log, and is taken in at the next start",
			patience, e.space.dir)
	}
}

// Limits leaves a quarter of Badger's own for its bookkeeping.
func (e *Engine) Limits() store.Limits {
	return store.Limits{
		Bytes:   int(e.db.MaxBatchSize() / 4 * 3),
		Records: int(e.db.MaxBatchCount() / 4 * 3),
	}
}

// Scan reads in a transaction, so it sees one moment.
func (e *Engine) Scan(ctx context.Context, prefix string, keysOnly bool, fn func(store.Record) error) (int64, error) {
	var revision int64
	err := e.db.View(func(txn *badger.Txn) error {
		var err error
		if revision, err = readRevision(txn); err != nil {
			return err
		}
		it := txn.NewIterator(badger.IteratorOptions{
			PrefetchValues: !keysOnly,
			PrefetchSize:   64,
			Prefix:         append([]byte{data}, prefix...),
		})
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
	item, err := txn.Get([]byte(revisionKey))
	if errors.Is(err, badger.ErrKeyNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	value, err := item.ValueCopy(nil)
	if err != nil {
		return 0, err
	}
	if len(value) != 8 {
		return 0, fmt.Errorf("the revision has %d bytes", len(value))
	}
	return int64(binary.BigEndian.Uint64(value)), nil
}

// Commit writes one transaction; SyncWrites makes it durable.
func (e *Engine) Commit(ctx context.Context, b store.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := e.space.check(b); err != nil {
		return err
	}
	txn := e.db.NewTransaction(true)
	defer txn.Discard()
	// Badger has copied it all when a commit returns.
	room := rooms.Get().(*room)
	defer room.leave()
	if err := room.fill(txn, b); err != nil {
		if errors.Is(err, badger.ErrTxnTooBig) {
			return store.ErrTooLarge
		}
		return err
	}
	return txn.Commit()
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

func (r *room) fill(txn *badger.Txn, b store.Batch) error {
	r.make(b)
	for _, rec := range b.Puts {
		if err := txn.Set(r.key(rec.Key), r.value(rec)); err != nil {
			return err
		}
	}
	for _, k := range b.Deletes {
		if err := txn.Delete(r.key(k)); err != nil {
			return err
		}
	}
	if b.Revision == 0 {
		return nil
	}
	return txn.Set([]byte(revisionKey), binary.BigEndian.AppendUint64(nil, uint64(b.Revision)))
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
		err := e.db.RunValueLogGC(0.5)
		if errors.Is(err, badger.ErrNoRewrite) || errors.Is(err, badger.ErrRejected) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}
