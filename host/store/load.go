package store

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
)

// format is the version of the records that this package writes. It grows when
// an older Berth could not read them.
const format = "1"

// firstRevision is that of an empty store: clients take 0 for "any".
const firstRevision = 1

var (
	// ErrFormat means that the data was written by another version.
	ErrFormat = errors.New("unknown data format")
	// ErrHalfRestored means that a restore into this engine did not end.
	ErrHalfRestored = errors.New("a restore into this store did not finish")
)

// load reads the engine. Decoding takes most of the time, so all CPUs do it,
// in runs of records which the one scanning goroutine hands out.
func (s *Store) load(ctx context.Context) error {
	if err := s.checkFormat(ctx); err != nil {
		return err
	}
	if err := s.collectBlobs(ctx); err != nil {
		return err
	}
	runs, err := s.decodeAll(ctx)
	if err != nil {
		return err
	}
	for _, run := range runs {
		for _, l := range run.loaded {
			if l.entry.rev > s.Revision() { // which others will get once more
				return fmt.Errorf("record %q of %s is of revision %d, the data is at %d: it is damaged, restore a backup", l.entry.name, l.resource, l.entry.rev, s.Revision())
			}
			s.resource(l.resource).replace(nil, l.entry)
		}
	}
	s.each(func(r *resource) {
		r.publish(s.Revision(), nil, time.Time{})
		r.tidy(1)
	})
	return nil
}

// checkFormat refuses what this version cannot read, and marks a new engine.
func (s *Store) checkFormat(ctx context.Context) error {
	found, err := readMeta(ctx, s.engine)
	if err != nil {
		return err
	}
	if found[restoreKey] != "" {
		return ErrHalfRestored
	}
	switch found[formatKey] {
	case format:
		return nil
	case "":
		put := Record{Key: formatKey, Value: []byte(format), Revision: firstRevision}
		return s.engine.Commit(ctx, Batch{Revision: firstRevision, Puts: []Record{put}})
	}
	return fmt.Errorf("%w: the data has format %q, this berth reads %q: start the berth that wrote it, or restore a backup made for this one",
		ErrFormat, found[formatKey], format)
}

// readMeta returns the records about the engine's data as a whole.
func readMeta(ctx context.Context, engine Engine) (map[string]string, error) {
	found := map[string]string{}
	_, err := engine.Scan(ctx, "f/", false, func(rec Record) error {
		found[rec.Key] = string(rec.Value)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read data format: %w", err)
	}
	if found[formatKey] != "" || found[restoreKey] != "" {
		return found, nil
	}
	_, err = engine.Scan(ctx, "", true, func(rec Record) error {
		return fmt.Errorf("%w: there are records (%q) and no format: this is no store of berth", ErrFormat, rec.Key)
	})
	return found, err
}

// run is a stretch of records in key order.
type run struct {
	records []Record
	loaded  []loaded
}

type loaded struct {
	resource string
	entry    *entry
}

const runLength = 512

func (s *Store) decodeAll(ctx context.Context) ([]*run, error) {
	var runs []*run
	g, gctx := errgroup.WithContext(ctx)
	work := make(chan *run, 2*runtime.GOMAXPROCS(0))
	for range runtime.GOMAXPROCS(0) {
		g.Go(func() error {
			for r := range work {
				if err := s.decodeRun(r); err != nil {
					return err
				}
			}
			return nil
		})
	}
	g.Go(func() error {
		defer close(work)
		return s.scanRuns(gctx, func(r *run) error {
			runs = append(runs, r)
			select {
			case work <- r:
				return nil
			case <-gctx.Done():
				return gctx.Err()
			}
		})
	})
	return runs, g.Wait()
}

func (s *Store) scanRuns(ctx context.Context, emit func(*run) error) error {
	current := &run{}
	rev, err := s.engine.Scan(ctx, objectPrefix, false, func(rec Record) error {
		current.records = append(current.records, rec)
		if len(current.records) < runLength {
			return nil
		}
		full := current
		current = &run{}
		return emit(full)
	})
	if err != nil {
		return err
	}
	s.floor.Store(rev)
	s.revision.Store(rev)
	return emit(current)
}

func (s *Store) decodeRun(r *run) error {
	for _, rec := range r.records {
		l, err := s.decode(rec)
		if err != nil {
			return fmt.Errorf("record %q at revision %d: %w", rec.Key, rec.Revision, err)
		}
		r.loaded = append(r.loaded, l)
	}
	r.records = nil
	return nil
}

func (s *Store) decode(rec Record) (loaded, error) {
	k, err := decodeKey(rec.Key)
	if err != nil {
		return loaded{}, err
	}
	obj, err := s.codec.Decode(k.Resource, rec.Value)
	if err != nil {
		return loaded{}, err
	}
	if obj.GetName() != k.Name || obj.GetNamespace() != k.Namespace {
		return loaded{}, fmt.Errorf("holds %s/%s", obj.GetNamespace(), obj.GetName())
	}
	obj.SetResourceVersion(strconv.FormatInt(rec.Revision, 10))
	s.fields.share(obj)
	e := &entry{
		namespace: obj.GetNamespace(),
		name:      obj.GetName(),
		rev:       rec.Revision,
		sum:       checksum(rec.Value),
		size:      len(rec.Value),
		cache:     s.cache,
		packed:    s.pack(k.Resource, nil, rec.Value),
	}
	if e.packed == nil {
		e.obj = obj
	}
	return loaded{k.Resource, e}, nil
}

// seed makes the checksums differ from process to process, so that nobody can
// prepare two states of an object which would be taken for one.
var seed = maphash.MakeSeed()

func checksum(data []byte) uint64 { return maphash.Bytes(seed, data) }
