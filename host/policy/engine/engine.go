package engine

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/tetratelabs/wazero"

	"github.com/berth-dev/berth/host/policy/engine/confine"
	"github.com/berth-dev/berth/host/policy/vet"
)

// Config is what an engine needs.
type Config struct {
	// CacheDir holds compiled modules; it belongs to this user alone. Without
	// one a temporary folder serves, which Close removes.
	CacheDir string
	// Child is the command of the compile child: by default ChildProgram, or
	// else this binary.
	Child []string
	// GuestMemory bounds what all instances may have together, memories and
	// stacks; 0 is no bound.
	GuestMemory int64
	// Log gets what an operator wants to know; by default nothing is said.
	Log *slog.Logger
}

// ChildProgram is what New starts as compile child unless told otherwise: this
// binary if empty. TestMain sets it where the test's own binary is slow.
var ChildProgram string

// Engine loads modules.
type Engine struct {
	cache     cache
	temporary bool
	child     []string
	log       *slog.Logger
	features  uint64        // of this processor, as wazero counts them
	version   string        // wazero's version
	compiling chan struct{} // one token for each compile child that may run
	compiled  atomic.Int64
	quota     memoryQuota

	mu      sync.Mutex
	loaded  map[loadKey]*shared
	loading map[loadKey]*loading
}

// maxChildren bounds what compile children may take together on a machine of
// many processors: each may take 4 GiB.
const maxChildren = 4

// loadKey is what a load depends on.
type loadKey struct {
	sum    [sha256.Size]byte
	limits vet.Limits
}

// loading is a load that others wait for.
type loading struct {
	done chan struct{}
	err  error
}

// New opens the cache.
func New(ctx context.Context, c Config) (*Engine, error) {
	e := &Engine{
		child: c.Child, log: c.Log, temporary: c.CacheDir == "",
		compiling: make(chan struct{}, min(max(1, runtime.NumCPU()-1), maxChildren)),
		loaded:    map[loadKey]*shared{}, loading: map[loadKey]*loading{},
	}
	e.quota.init(c.GuestMemory)
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	if len(e.child) == 0 {
		e.child = []string{cmp.Or(ChildProgram, confine.ThisBinary), childName}
	}
	dir := c.CacheDir
	if e.temporary {
		var err error
		if dir, err = os.MkdirTemp("", "berth-compiled-"); err != nil {
			return nil, err
		}
	}
	var err error
	if e.cache, err = openCache(dir); err != nil {
		return nil, err
	}
	if err := e.learn(ctx); err != nil {
		return nil, err
	}
	return e, nil
}

// Close removes a temporary cache. Modules and instances are closed by those
// who opened them.
func (e *Engine) Close() error {
	if !e.temporary {
		return nil
	}
	return os.RemoveAll(e.cache.dir)
}

// Compiled is how many times a child has compiled a module.
func (e *Engine) Compiled() int64 { return e.compiled.Load() }

// Holds is how many modules' code is in memory, and how many Modules and
// Instances hold it there.
func (e *Engine) Holds() (modules, holds int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.loaded {
		holds += s.holds
	}
	return len(e.loaded), holds
}

// learn compiles a module of our own, to see how wazero names what it keeps.
func (e *Engine) learn(ctx context.Context) error {
	known := []byte("\x00asm\x01\x00\x00\x00\x01\x04\x01\x60\x00\x00\x03\x02\x01\x00\x0a\x04\x01\x02\x00\x0b")
	var entry bytes.Buffer
	own := &taken{code: &entry}
	compiled, err := handOver(own)
	if err != nil {
		return err
	}
	defer compiled.Close(ctx)
	r := wazero.NewRuntimeWithConfig(ctx, runtimeConfig(compiled))
	defer r.Close(ctx)
	if _, err := r.CompileModule(ctx, known); err != nil {
		return err
	}
	var ok bool
	if e.features, ok = findFeatures(known, own.name); !ok {
		return errors.New("wazero names compiled code in another way than this host expects")
	}
	code := entry.Bytes()
	if len(code) < len(entryMagic)+1 {
		return errEntry
	}
	n := len(entryMagic) + 1
	e.version = string(code[n:min(len(code), n+int(code[n-1]))])
	return checkEntry(code, e.version, 1)
}

// Load vets a module, has it compiled unless its code is in the cache, and
// makes it ready to be opened. A module that may not run is refused with a
// *vet.Refusal or a *Failure. Loads of the same module share the work, and the
// result until the last of them is closed.
func (e *Engine) Load(ctx context.Context, wasm []byte, limits vet.Limits) (*Module, error) {
	key := loadKey{sha256.Sum256(wasm), limits}
	for {
		s, wait := e.claim(key)
		if s != nil {
			return newModule(s), nil
		}
		if wait == nil {
			break
		}
		select {
		case <-wait.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if wait.err != nil && !errors.Is(wait.err, context.Canceled) && !errors.Is(wait.err, context.DeadlineExceeded) {
			return nil, wait.err
		}
	}
	s, err := e.loadForAll(ctx, wasm, key)
	if err != nil {
		return nil, err
	}
	return newModule(s), nil
}

var errBrokeOff = errors.New("a load of the same module broke off")

// loadForAll tells those who wait what comes of a load, and that it came to
// nothing where it panics.
func (e *Engine) loadForAll(ctx context.Context, wasm []byte, key loadKey) (s *shared, err error) {
	err = errBrokeOff
	defer func() { e.publish(key, s, err) }()
	return e.load(ctx, wasm, key)
}

// Loaded returns the module of that sum and those limits if its code is in
// memory, nil if Load would have to be given its bytes.
func (e *Engine) Loaded(sum [sha256.Size]byte, limits vet.Limits) *Module {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.loaded[loadKey{sum, limits}]
	if s == nil {
		return nil
	}
	s.holds++
	return newModule(s)
}

// claim returns what is loaded, with a hold on it, or the load to wait for;
// neither of them means that the caller loads.
func (e *Engine) claim(key loadKey) (*shared, *loading) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s := e.loaded[key]; s != nil {
		s.holds++
		return s, nil
	}
	if l := e.loading[key]; l != nil {
		return nil, l
	}
	e.loading[key] = &loading{done: make(chan struct{})}
	return nil, nil
}

func (e *Engine) publish(key loadKey, s *shared, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.loading[key]
	delete(e.loading, key)
	if l.err = err; err == nil {
		s.key, s.holds = key, 1
		e.loaded[key] = s
	}
	close(l.done)
}

func (e *Engine) hold(s *shared) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s.holds++
}

// release gives a hold back; the last one frees the code.
func (e *Engine) release(s *shared) {
	e.mu.Lock()
	s.holds--
	last := s.holds == 0
	if last {
		delete(e.loaded, s.key)
	}
	e.mu.Unlock()
	if last {
		s.free()
	}
}

func (e *Engine) load(ctx context.Context, uploaded []byte, key loadKey) (*shared, error) {
	digest := "sha256:" + hex.EncodeToString(key.sum[:])
	v, err := e.vetted(ctx, uploaded, key)
	if err != nil {
		return nil, err
	}
	name := entryName(v.Wasm, e.features)
	entry, err := e.entry(ctx, name, v.Wasm, v.Report.Functions)
	if err != nil {
		return nil, fmt.Errorf("module %s: %w", short(digest), err)
	}
	s, err := e.link(ctx, name, entry, v.Wasm)
	if err != nil {
		return nil, fmt.Errorf("module %s: %w", short(digest), err)
	}
	s.engine, s.digest, s.report = e, digest, v.Report
	s.bytes = loadedBytes(v, entry)
	if len(v.Lines) > 0 {
		if s.lines, err = readLines(v.Lines); err != nil {
			s.free()
			return nil, err
		}
	}
	if s.manifest, err = s.readManifest(ctx); err != nil {
		s.free()
		return nil, err
	}
	e.keep(key, v)
	return s, nil
}

// entry returns a module's code from the cache, or has a child compile it. A
// child that leaves something broken gets a second try.
func (e *Engine) entry(ctx context.Context, name string, wasm []byte, functions int) ([]byte, error) {
	if entry := e.cache.get(name); entry != nil {
		if checkEntry(entry, e.version, functions) == nil {
			return entry, nil
		}
		e.cache.drop(name)
	}
	select {
	case e.compiling <- struct{}{}:
		defer func() { <-e.compiling }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	entry, err := e.compile(ctx, name, wasm, functions)
	if err != nil && !errors.Is(err, ErrCompile) && ctx.Err() == nil {
		e.log.Warn("compiling again", "err", err)
		entry, err = e.compile(ctx, name, wasm, functions)
	}
	if err != nil {
		return nil, err
	}
	if err := e.cache.put(name, entry); err != nil {
		e.log.Warn("compiled code is not kept", "err", err)
	}
	return entry, nil
}

func (e *Engine) compile(ctx context.Context, name string, wasm []byte, functions int) ([]byte, error) {
	at, err := e.cache.work()
	if err != nil {
		return nil, err
	}
	defer at.remove()
	e.compiled.Add(1)
	path := filepath.Join(at.dir, name)
	if err := runChild(ctx, e.child, path, modeCompile, wasm); err != nil {
		return nil, err
	}
	entry, err := takeOne(path, maxEntryBytes)
	if err != nil {
		return nil, err
	}
	return entry, checkEntry(entry, e.version, functions)
}

// link makes a runtime for one module out of its code.
func (e *Engine) link(ctx context.Context, name string, entry, wasm []byte) (*shared, error) {
	compiled, err := handOver(given{name, entry})
	if err != nil {
		return nil, err
	}
	s := &shared{compiled: compiled, runtime: wazero.NewRuntimeWithConfig(ctx, runtimeConfig(compiled))}
	if s.module, err = s.runtime.CompileModule(ctx, wasm); err == nil {
		err = provideImports(ctx, s.runtime, s.module)
	}
	if err != nil {
		s.free()
		return nil, err
	}
	return s, nil
}
