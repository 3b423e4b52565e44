package engine

import (
	"bytes"
	"context"
	"log/slog"
	"sync"

	"github.com/tetratelabs/wazero"

	"github.com/berth-dev/berth/host/policy/vet"
)

// shared is a module's code, held by each Module and Instance made of it.
type shared struct {
	engine   *Engine
	key      loadKey
	holds    int // guarded by engine.mu
	digest   string
	report   vet.Report
	bytes    int64
	manifest []byte
	lines    *lineTable // nil without debug information
	compiled wazero.CompilationCache
	runtime  wazero.Runtime
	module   wazero.CompiledModule
}

func (s *shared) free() {
	ctx := context.Background()
	_ = s.runtime.Close(ctx)
	_ = s.compiled.Close(ctx)
}

// readManifest asks a throw-away instance, so that a module which cannot start
// or say what it is never becomes a Module.
func (s *shared) readManifest(ctx context.Context) ([]byte, error) {
	i, err := s.open(ctx, OpenConfig{}, nil)
	if err != nil {
		return nil, err
	}
	defer i.Close()
	r, err := i.Call(FuncManifest, nil, ManifestBudget)
	if err != nil {
		return nil, err
	}
	return bytes.Clone(r.Out), nil
}

// Module is a loaded module. It is safe for concurrent use.
type Module struct {
	shared *shared
	once   sync.Once
}

func newModule(s *shared) *Module { return &Module{shared: s} }

// Digest is "sha256:<hex>" of the bytes that were given to Load.
func (m *Module) Digest() string { return m.shared.digest }

// Manifest is the JSON that the module tells of itself, unread.
func (m *Module) Manifest() []byte { return m.shared.manifest }

// Report is what vet saw in it.
func (m *Module) Report() vet.Report { return m.shared.report }

// loadedBytes is about what a module takes while it is loaded: its code, outside
// of Go's heap, and in it what wazero keeps of the module and of its imports, and
// what is known of its source.
func loadedBytes(v *vetted, entry []byte) int64 {
	const imports, function, local, segment = 128 << 10, 300, 8, 40
	r := &v.Report
	kept := function*r.Functions + local*r.AllLocals + segment*r.Data + r.HostBytes
	return int64(len(entry)+2*len(v.Wasm)+kept+len(v.Lines)+len(r.Origins)) + imports
}

// Bytes is about how much memory its code takes; instances have their own.
func (m *Module) Bytes() int64 { return m.shared.bytes }

// Has says whether the module exports a function of the ABI.
func (m *Module) Has(f Func) bool {
	_, ok := m.shared.module.ExportedFunctions()[f.String()]
	return ok
}

// Close frees the code once all instances are closed too.
func (m *Module) Close() {
	m.once.Do(func() { m.shared.engine.release(m.shared) })
}

// OpenConfig is how an instance is opened.
type OpenConfig struct {
	// Log gets what the guest says, line by line, limited in number and length.
	// It is called in the midst of a guest's call and must not block.
	Log func(level slog.Level, message string)
	// Count is told when the guest counts n more of a counter of its manifest; the
	// index may be one that the manifest does not have. It must not block either.
	Count func(index, n uint32)
	// Budget of _initialize; StartBudget by default.
	Budget Fuel
	// Rank says for whom the instance gives its memory up.
	MemoryPriority MemoryPriority
}

// Open makes an instance and has it initialise itself.
func (m *Module) Open(ctx context.Context, c OpenConfig) (*Instance, error) {
	m.shared.engine.hold(m.shared)
	i, err := m.shared.open(ctx, c, func() { m.shared.engine.release(m.shared) })
	if err != nil {
		m.shared.engine.release(m.shared)
		return nil, err
	}
	return i, nil
}
