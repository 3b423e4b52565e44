package badger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"

	"github.com/berth-dev/berth/host/store"
)

// Open opens or makes the directory. Only one process may have it open. All
// that it holds is read and held against the sums that were written with it.
//
// # Errors
//
// store.ErrFormat if the directory was written by another version,
// store.ErrCorrupt if something in it is damaged or missing, store.ErrNoSpace.
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
	e := &Engine{dir: dir, lock: lock, log: logger, space: space{dir: dir, free: diskFree}}
	if err := e.open(); err != nil {
		return nil, errors.Join(refusal(dir, err), unlockDir(lock))
	}
	return e, nil
}

// open reads the directory, anew after a failure.
func (e *Engine) open() error {
	if err := e.space.start(); err != nil {
		return err
	}
	if err := repair(e.dir, e.log); err != nil {
		return err
	}
	opts := configure(e.dir, e.log)
	suspects, err := e.inspect(opts)
	if err != nil {
		return err
	}
	witnessed, found, err := readWitness(e.dir)
	if err != nil {
		return err
	}
	var db *badger.DB
	err = guarded(func() (err error) {
		db, err = badger.Open(opts)
		return err
	})
	if err != nil {
		return fmt.Errorf("open badger: %w", explain(err, suspects))
	}
	if err = guarded(func() error { return e.take(db, witnessed) }); err == nil {
		if !found && e.ledger.commit > 0 {
			e.log.Warn("there is no witness of the store's last commit: if the newest writes were lost, nobody can tell", "file", witnessFile)
		}
		e.witness, err = openWitness(e.dir, e.ledger.commit)
	}
	if err != nil {
		return errors.Join(explain(err, suspects), closeWithin(db, closeTime, e.dir))
	}
	e.db = db
	e.spare.hold(e.dir)
	return nil
}

// inspect looks at the files before Badger does, which cuts, removes and maps
// what it finds.
func (e *Engine) inspect(opts badger.Options) (suspects []string, err error) {
	if err := checkTables(e.dir, opts); err != nil {
		return nil, err
	}
	if err := checkKeys(e.dir); err != nil {
		return nil, err
	}
	if err := checkDiscard(e.dir, e.log); err != nil {
		return nil, err
	}
	return checkLogs(e.dir)
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

var errForeign = fmt.Errorf("%w: a badger database that is not berth's", store.ErrFormat)

// take reads all records into a ledger and holds it against the state that the
// last commit left, and that against the witness.
func (e *Engine) take(db *badger.DB, witnessed uint64) error {
	e.ledger = newLedger()
	found, err := e.read(db)
	if err == nil && found == "" && e.ledger.records > 0 {
		err = errForeign
	}
	begins := err == nil && (found == "" || found == unsummed)
	if witnessed > 0 && (begins || errors.Is(err, errForeign)) {
		return fmt.Errorf("%w: commit %d was acknowledged, and the records do not even say that they are berth's", store.ErrCorrupt, witnessed)
	}
	if err != nil {
		return err
	}
	switch {
	case begins:
		return db.Update(e.begin)
	case found != format:
		return fmt.Errorf("%w: engine format %q, this berth reads %q: start the berth that wrote it", store.ErrFormat, found, format)
	}
	return e.ledger.check(db, witnessed)
}

// read counts all records, and returns the format.
func (e *Engine) read(db *badger.DB) (found string, err error) {
	err = db.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			key := it.Item().Key()
			if key[0] == data {
				if err := it.Item().Value(func(value []byte) error { e.ledger.count(key, value); return nil }); err != nil {
					return fmt.Errorf("%w: record %q: %w", store.ErrCorrupt, key[1:], err)
				}
				continue
			}
			value, err := it.Item().ValueCopy(nil)
			if err != nil {
				return err
			}
			switch string(key) {
			case formatKey:
				found = string(value)
			case revisionKey:
				e.ledger.revision = int64(binary.BigEndian.Uint64(value))
			case stateKey:
			default:
				return errForeign
			}
		}
		return nil
	})
	return found, err
}

// begin makes an empty database, or one of format 1, one of this format.
func (e *Engine) begin(txn *badger.Txn) error {
	return errors.Join(
		txn.Set([]byte(formatKey), []byte(format)),
		txn.Set([]byte(stateKey), e.ledger.encode()),
		txn.Delete([]byte(revisionKey)),
	)
}

func readState(txn *badger.Txn) (state, error) {
	item, err := txn.Get([]byte(stateKey))
	if errors.Is(err, badger.ErrKeyNotFound) {
		return state{}, fmt.Errorf("%w: the state of the records is missing", store.ErrCorrupt)
	}
	if err != nil {
		return state{}, err
	}
	value, err := item.ValueCopy(nil)
	if err != nil {
		return state{}, err
	}
	return decodeState(value)
}

// check compares what was counted with what should be there.
func (l *ledger) check(db *badger.DB, witnessed uint64) error {
	var want state
	err := db.View(func(txn *badger.Txn) (err error) {
		want, err = readState(txn)
		return err
	})
	switch {
	case err != nil:
		return err
	case want.commit < witnessed:
		return fmt.Errorf("%w: commit %d was acknowledged, and the newest that is there is %d: a write-ahead log (*.mem) was cut, removed or replaced",
			store.ErrCorrupt, witnessed, want.commit)
	case want.records != l.records:
		return fmt.Errorf("%w: %d records were found, and %d were written", store.ErrCorrupt, l.records, want.records)
	case want.sum != l.sum:
		return fmt.Errorf("%w: of %d records some are not as they were written", store.ErrCorrupt, l.records)
	}
	l.state = want
	return nil
}

// guarded turns what a damaged file makes of Badger into an error: its panics,
// and the signal for a page of a memory map that the disk has no room for.
func guarded(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch r := recover().(type) {
		case nil:
		case interface{ Addr() uintptr }: // of runtime.Error, after a fault
			err = fmt.Errorf("%w: a page of a mapped file cannot be had: either the disk is full, or the file was cut meanwhile", store.ErrNoSpace)
		default:
			err = fmt.Errorf("%w: %v", store.ErrCorrupt, r)
		}
	}()
	return fn()
}

// explain adds the logs that looked damaged before, and cuts what Badger prints
// of keys.
func explain(err error, suspects []string) error {
	if len(suspects) == 0 || errors.Is(err, store.ErrFormat) {
		return err
	}
	return fmt.Errorf("%w (%s)", err, strings.Join(suspects, "; "))
}

// refusal is why a directory does not open, and what to do about it. Of what the
// system refused Badger gives the text alone.
func refusal(dir string, err error) error {
	err = fmt.Errorf("open %s: %w", dir, err)
	switch {
	case errors.Is(err, store.ErrNoSpace), errors.Is(err, store.ErrFormat):
		return err
	case says(err, noSpace):
		return fmt.Errorf("%w: %w: free some of the disk", store.ErrNoSpace, err)
	case says(err, systemErrors...):
		return err
	case !errors.Is(err, store.ErrCorrupt):
		err = fmt.Errorf("%w: %w", store.ErrCorrupt, err)
	}
	if strings.Contains(err.Error(), "remove the file") {
		return err
	}
	return fmt.Errorf("%w; to go on from a backup, move %s away and run `berth restore BACKUP --data-dir %s`", err, dir, filepath.Dir(dir))
}
