package module

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/policy/vet"
)

// ErrRefused wraps the reason for which a module may not come in.
var ErrRefused = errors.New("module refused")

// MaxSignatures is how many a module may have.
const MaxSignatures = 16

// Examine checks who signed a module, and inspects it. Of each user one is examined
// at a time, so that who sends many holds up nobody else's.
//
// # Errors
//
// ErrRefused with the reason, if the module is at fault.
func (s *Store) Examine(ctx context.Context, user string, wasm []byte, signatures []v1alpha1.Signature) (*v1alpha1.Module, error) {
	if len(signatures) > MaxSignatures {
		return nil, fmt.Errorf("%w: it has %d signatures, and may have %d", ErrRefused, len(signatures), MaxSignatures)
	}
	if err := s.Trusts(sha256.Sum256(wasm), signatures); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	waiting, stop := context.WithTimeout(ctx, turnTime)
	defer stop()
	leave, err := s.turns.take(waiting, user)
	if err != nil {
		return nil, err
	}
	defer leave()
	done, err := s.examine(waiting)
	if err != nil {
		return nil, err
	}
	defer done()
	m, err := s.inspect(ctx, wasm)
	if err != nil {
		return nil, err
	}
	m.Spec.Signatures = signatures
	return m, nil
}

// turnTime is how long an upload waits for those before it. How long it is then
// looked at is the engine's to bound, which gives it more where the machine is busy.
const turnTime = time.Minute

// maxExamining is how many modules are examined at a time: to vet one takes a
// processor and several times its size.
const maxExamining = 2

// turns are whose turn it is, by user.
type turns struct {
	mu sync.Mutex
	of map[string]*turn
}

type turn struct {
	taken chan struct{}
	users int // who have it or wait for it
}

// take waits for the user's turn, which ends with leave.
func (t *turns) take(ctx context.Context, user string) (leave func(), err error) {
	t.mu.Lock()
	own := t.of[user]
	if own == nil {
		if t.of == nil {
			t.of = map[string]*turn{}
		}
		own = &turn{taken: make(chan struct{}, 1)}
		t.of[user] = own
	}
	own.users++
	t.mu.Unlock()
	forget := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if own.users--; own.users == 0 {
			delete(t.of, user)
		}
	}
	select {
	case own.taken <- struct{}{}:
		return func() {
			<-own.taken
			forget()
		}, nil
	case <-ctx.Done():
		forget()
		return nil, ctx.Err()
	}
}

// Inspect vets and compiles a module, and returns the Module object that
// stands for it. Nothing is stored.
func (s *Store) Inspect(ctx context.Context, wasm []byte) (*v1alpha1.Module, error) {
	done, err := s.examine(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return s.inspect(ctx, wasm)
}

// examine waits until few enough are examined.
func (s *Store) examine(ctx context.Context) (done func(), err error) {
	select {
	case s.examining <- struct{}{}:
		return func() { <-s.examining }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *Store) inspect(ctx context.Context, wasm []byte) (*v1alpha1.Module, error) {
	module, err := s.Engine.Load(ctx, wasm, vet.DefaultLimits())
	if err != nil {
		return nil, refusal(ctx, err)
	}
	manifest, err := abi.ReadManifest(module.Manifest())
	if err != nil {
		module.Close()
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	defer s.Ready.keep(module)
	digest := module.Digest()
	m := &v1alpha1.Module{Spec: v1alpha1.ModuleSpec{Digest: digest, Size: int64(len(wasm))}}
	m.Name = v1alpha1.ModuleName(digest)
	m.Status = v1alpha1.ModuleStatus{Phase: "Accepted", Version: manifest.Version}
	for i := range manifest.Policies {
		p := &manifest.Policies[i]
		m.Status.Entries = append(m.Status.Entries, v1alpha1.ModuleEntry{Name: p.Name, Kind: p.Kind, Description: p.Description})
	}
	return m, nil
}

func refusal(ctx context.Context, err error) error {
	if ctx.Err() != nil || !isModules(err) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrRefused, err)
}

// isModules tells a module's fault from the host's own trouble.
func isModules(err error) bool {
	var bad *vet.Refusal
	var failed *engine.Failure
	return errors.As(err, &bad) || errors.As(err, &failed) || errors.Is(err, engine.ErrCompile)
}

// Limits of what uploads hold in memory at a time, of all users and of one.
const (
	maxArriving = 128 << 20
	maxOfUser   = 64 << 20
)

// ErrBusy says that others' uploads, or the user's own, fill the room for them.
var ErrBusy = errors.New("too much is being uploaded: try again in a second")

// ErrTooLarge says that an upload is larger than any module may be.
var ErrTooLarge = fmt.Errorf("a module may have %d bytes", vet.DefaultLimits().Bytes)

// Receive reads a module that a user sends. done gives its room back.
//
// # Errors
//
// ErrBusy, ErrTooLarge, or the reader's.
func (s *Store) Receive(user string, from io.Reader) (wasm []byte, done func(), err error) {
	const first = 64 << 10
	most := vet.DefaultLimits().Bytes + 1
	held := 0
	done = func() { s.intake.add(user, -held) }
	for err == nil {
		if len(wasm) == cap(wasm) {
			size := min(max(2*cap(wasm), first), most)
			if !s.intake.add(user, size-held) {
				done()
				return nil, nil, ErrBusy
			}
			held = size
			wasm = append(make([]byte, 0, size), wasm...)
		}
		var n int
		n, err = from.Read(wasm[len(wasm):cap(wasm)])
		if wasm = wasm[:len(wasm)+n]; len(wasm) == most {
			err = ErrTooLarge
		}
	}
	if !errors.Is(err, io.EOF) {
		done()
		return nil, nil, err
	}
	return wasm, done, nil
}

// intake counts what uploads hold, by user.
type intake struct {
	mu  sync.Mutex
	all int
	of  map[string]int
}

// add takes room or gives it back, and says whether there was enough.
func (i *intake) add(user string, n int) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if n > 0 && (i.all+n > maxArriving || i.of[user]+n > maxOfUser) {
		return false
	}
	if i.of == nil {
		i.of = map[string]int{}
	}
	i.all += n
	if i.of[user] += n; i.of[user] == 0 {
		delete(i.of, user)
	}
	return true
}

// Keep stores the module's bytes, so that policies can name it. If no Module
// object follows within the hour, they are collected.
//
// # Errors
//
// ErrFull, if too many came that no policy uses.
func (s *Store) Keep(ctx context.Context, m *v1alpha1.Module, wasm []byte) error {
	used, err := s.usedModules()
	if err != nil {
		return err
	}
	if err := s.uploads.come(ctx, m.Spec.Digest, len(wasm), used, s.Now()); err != nil {
		return err
	}
	return s.Objects.PutBlob(ctx, m.Spec.Digest, wasm)
}
