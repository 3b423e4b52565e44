package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// AllResources is the name under which Options.Indexes holds what every
// resource has.
const AllResources = "*"

// Options tunes a store; the zero value is fit for use.
type Options struct {
	// History is how long lists and watches can go back, 5 minutes if 0.
	History time.Duration
	// MaxEvents bounds the history of each resource, 100,000 if 0.
	MaxEvents int
	// MaxHistoryBytes bounds the encoded size of the superseded states that
	// the history of a resource keeps in memory, 64 MiB if 0.
	MaxHistoryBytes int
	// SharedBytes bounds the encodings kept by Event.Shared and List.Shared,
	// 64 MiB if 0. None is kept longer than History.
	SharedBytes int
	// Indexes are the functions by resource and name of the index; those of
	// AllResources hold for every resource.
	Indexes map[string]map[string]IndexFunc
	// Packed are the resources whose objects are kept as bytes once history has
	// passed: those that are many and hardly read. Each reader of such an object
	// then gets its own.
	Packed []string
	// Logger hears of what the store repairs or gives up; silent if nil.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.History == 0 {
		o.History = 5 * time.Minute
	}
	if o.MaxEvents == 0 {
		o.MaxEvents = 100_000
	}
	if o.MaxHistoryBytes == 0 {
		o.MaxHistoryBytes = 64 << 20
	}
	if o.SharedBytes == 0 {
		o.SharedBytes = 64 << 20
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Store holds all objects in memory over a durable engine. Its methods may be
// called by any goroutine.
//
// It is large because reads, writes, watches, history, blobs and backups are of
// one sequence of revisions under one lock; each has a file.
type Store struct {
	engine Engine
	codec  Codec
	opts   Options
	limits Limits
	floor  atomic.Int64 // no history before: the revision found at Open, or Compact's

	revision atomic.Int64
	cache    *encodingCache
	packings map[string]*packing
	fields   fieldSets
	interner Interner // the codec, if it is one
	stats    counters

	mu        sync.RWMutex // guards the map, not the resources
	resources map[string]*resource

	life  sync.RWMutex // read-held while the engine is used outside the sequencer; Close takes it
	blobs sync.RWMutex // one writer of a blob, or readers of it

	queue   chan *request
	doubt   *batch // of which the engine has not said yet whether it is written; the sequencer's
	wakes   wakes
	stop    chan struct{} // closed by Close
	once    sync.Once
	running sync.WaitGroup
	ended   chan struct{} // closed when the sequencer has answered its last
	failure atomic.Pointer[error]
	failed  chan struct{}
}

// Open reads the engine into memory and starts the sequencer. The store owns
// the engine from here on; a failed Open closes it.
func Open(ctx context.Context, engine Engine, codec Codec, opts Options) (*Store, error) {
	opts = opts.withDefaults()
	s := &Store{
		engine:    engine,
		codec:     codec,
		opts:      opts,
		limits:    engine.Limits(),
		cache:     &encodingCache{capacity: opts.SharedBytes},
		packings:  map[string]*packing{},
		resources: map[string]*resource{},
		queue:     make(chan *request, 1024),
		wakes:     wakes{some: make(chan struct{}, 1)},
		stop:      make(chan struct{}),
		ended:     make(chan struct{}),
		failed:    make(chan struct{}),
	}
	for _, resource := range opts.Packed {
		s.packings[resource] = &packing{s, resource}
	}
	s.cache.sharer, _ = codec.(Sharer)
	s.interner, _ = codec.(Interner)
	if err := s.load(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open store: %w", err), engine.Close())
	}
	s.running.Go(s.sequence)
	s.running.Go(s.wakeWatchers)
	s.running.Go(s.compact)
	return s, nil
}

// Close answers what is queued with ErrClosed, ends watches, and closes the
// engine.
func (s *Store) Close() error {
	err := error(nil)
	s.once.Do(func() {
		close(s.stop)
		s.running.Wait()
		s.life.Lock()
		defer s.life.Unlock()
		err = s.engine.Close()
	})
	return err
}

// untilClose derives a context that ends when the store is closed.
func (s *Store) untilClose(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-s.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// use keeps the engine open until release is called; false after Close.
func (s *Store) use() (release func(), ok bool) {
	s.life.RLock()
	if s.closed() {
		s.life.RUnlock()
		return nil, false
	}
	return s.life.RUnlock, true
}

func (s *Store) closed() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

// Revision is the newest revision that readers see.
func (s *Store) Revision() int64 { return s.revision.Load() }

// Failed is closed when the engine has failed to commit. Reads go on, writes
// are refused with Err, and the process should be started anew: what the disk
// holds of the last batch is known only after that.
func (s *Store) Failed() <-chan struct{} { return s.failed }

// Err is the engine's failure, nil while there is none.
func (s *Store) Err() error {
	if err := s.failure.Load(); err != nil {
		return *err
	}
	return nil
}

func (s *Store) fail(err error) error {
	err = fmt.Errorf("the store takes no more writes until it is opened anew: %w", err)
	if s.failure.CompareAndSwap(nil, &err) {
		s.opts.Logger.Error("engine failed to commit", "err", err)
		close(s.failed)
	}
	return err
}

// Get returns the newest committed state. It never waits.
func (s *Store) Get(k Key) (Object, bool) {
	r := s.lookup(k.Resource)
	if r == nil {
		return nil, false
	}
	e := r.get(k.Namespace, k.Name)
	if e == nil {
		return nil, false
	}
	return e.object(), true
}

// Shared is Event.Shared for an object that Get or Commit gave, as long as it is
// the newest state; else the object is encoded for this caller.
func (s *Store) Shared(k Key, obj Object, format string, encode func(Object) ([]byte, error)) ([]byte, error) {
	if r := s.lookup(k.Resource); r != nil {
		if e := r.get(k.Namespace, k.Name); e != nil && e.is(obj) {
			return e.shared(format, obj, encode)
		}
	}
	return encode(obj)
}

// Indexed returns the objects for which the index function named value.
func (s *Store) Indexed(resourceName, indexName, value string) []Object {
	r := s.lookup(resourceName)
	if r == nil {
		return nil
	}
	i := r.indexCalled(indexName)
	if i < 0 {
		return nil
	}
	var found []Object
	r.snapshot().indexes[i].AscendGreaterOrEqual(indexed{value, &entry{}}, func(it indexed) bool {
		if it.value != value {
			return false
		}
		found = append(found, it.entry.object())
		return true
	})
	return found
}

func (r *resource) indexCalled(name string) int {
	return slices.IndexFunc(r.indexes, func(ix *index) bool { return ix.name == name })
}

// Update reads the object, has change make the new state from it, and commits
// that, again and again until no other writer came between. change gets the
// shared object: it returns a changed deep copy, or the same object to leave
// all as it is. It may be called several times.
//
// # Errors
//
// ErrNotFound, what change returns, and those of Commit but ErrConflict.
func (s *Store) Update(ctx context.Context, k Key, change func(Object) (Object, error)) (Object, error) {
	for {
		e, err := s.entry(k)
		if err != nil {
			return nil, err
		}
		have := e.object()
		next, err := change(have)
		if err != nil {
			return nil, err
		}
		if next == have {
			return have, nil
		}
		_, objs, err := s.Commit(ctx, Op{Kind: Update, Key: k, Object: next, Expect: e.rev})
		if err == nil {
			return objs[0], nil
		}
		if !errors.Is(err, ErrConflict) {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}

func (s *Store) entry(k Key) (*entry, error) {
	if r := s.lookup(k.Resource); r != nil {
		if e := r.get(k.Namespace, k.Name); e != nil {
			return e, nil
		}
	}
	return nil, &Error{Key: k, Kind: ErrNotFound}
}

// lookup returns the resource, nil if nobody has written or watched it.
func (s *Store) lookup(name string) *resource {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.resources[name]
}

// resource returns the resource, made if need be. Its history reaches back as
// far as any, since it had no events so far.
func (s *Store) resource(name string) *resource {
	if r := s.lookup(name); r != nil {
		return r
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.resources[name]
	if !ok {
		r = newResource(name, s.floor.Load(), &s.opts)
		s.resources[name] = r
	}
	return r
}

func (s *Store) each(fn func(*resource)) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, r := range s.resources {
		fn(r)
	}
}

// Compact forgets what was before rev, earlier than time would: watches and
// lists from before are answered ErrCompacted. ErrFuture if rev has not come.
func (s *Store) Compact(rev int64) error {
	if rev > s.Revision() {
		return ErrFuture
	}
	for {
		have := s.floor.Load()
		if rev <= have || s.floor.CompareAndSwap(have, rev) {
			break
		}
	}
	s.each(func(r *resource) {
		r.log.forget(rev)
		r.pins.forget(rev)
	})
	return nil
}

// ticks is how often a history's length is looked at what to forget of it.
const ticks = 10

// compact forgets history by time, and has the engine give back room.
func (s *Store) compact() {
	tick := time.NewTicker(max(s.opts.History/ticks, time.Millisecond))
	defer tick.Stop()
	ctx, cancel := s.untilClose(context.Background())
	defer cancel()
	for n := 1; ; n++ {
		select {
		case <-s.stop:
			return
		case now := <-tick.C:
			s.each(func(r *resource) {
				r.log.expire(now)
				r.pins.expire(now)
				r.tidy(1) // pending changes keep old states alive
			})
			s.cache.expire(ticks)
		}
		if n%ticks != 0 {
			continue
		}
		if err := s.engine.Compact(ctx); err != nil {
			s.opts.Logger.Warn("engine did not compact", "err", err)
		}
	}
}
