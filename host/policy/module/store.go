package module

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/policy/vet"
	"github.com/berth-dev/berth/host/store"
)

// Objects is the part of the store that modules lie in.
type Objects interface {
	Get(store.Key) (store.Object, bool)
	List(resource, namespace string, opts store.ListOptions) (store.List, error)
	Commit(ctx context.Context, ops ...store.Op) (int64, []store.Object, error)
	PutBlob(ctx context.Context, digest string, data []byte) error
	Blob(ctx context.Context, digest string) ([]byte, error)
	Blobs(ctx context.Context) ([]string, error)
	DeleteBlob(ctx context.Context, digest string) error
}

// Config is what a Store needs.
type Config struct {
	Objects Objects
	Engine  *engine.Engine
	// Trusted keys: if there are any, modules must be signed by one of them.
	Trusted Keyring
	Now     func() time.Time
	Log     *slog.Logger
}

// Store holds modules by content.
type Store struct {
	Config
	// intake is what is being uploaded; turns are those of users, and examining has a
	// token for each module that is examined. own are the digests of those that come
	// with the host.
	intake    intake
	turns     turns
	examining chan struct{}
	own       sync.Map
	uploads   uploads
	// Ready are modules that policies may name next.
	Ready Cache
}

// NewStore makes one.
func NewStore(c Config) *Store {
	return &Store{Config: c, examining: make(chan struct{}, maxExamining)}
}

// Close lets go of what is kept ready.
func (s *Store) Close() { s.Ready.Clear() }

// Forget lets go of modules that were deleted.
func (s *Store) Forget(events []store.Event) { s.Ready.gone(events) }

// policies are all Policies.
func (s *Store) policies() (all []*v1alpha1.Policy, err error) {
	list, err := s.Objects.List(v1alpha1.Policies, "", store.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, o := range list.Items {
		if p, ok := o.(*v1alpha1.Policy); ok {
			all = append(all, p)
		}
	}
	return all, nil
}

// errNoModule is cured by an upload.
var errNoModule = errors.New("it is not there: upload it first")

// UnavailableError is one that a change of the Module may cure; Version is that
// of the Module as it was found, empty if there was none.
type UnavailableError struct {
	error
	Version string
}

// Unwrap returns why.
func (e UnavailableError) Unwrap() error { return e.error }

// HostError is the host's own trouble, such as a full disk, of which the module
// may be loaded once it has passed.
type HostError struct{ error }

// Unwrap returns what it is.
func (e HostError) Unwrap() error { return e.error }

// IsOwn says whether a module came with the host.
func (s *Store) IsOwn(digest string) bool {
	_, own := s.own.Load(digest)
	return own
}

// Vouch lets a module in that comes with the host itself, whoever signed it.
func (s *Store) Vouch(digest string) { s.own.Store(digest, true) }

// Trusts says whether the bytes of that sum may run here.
func (s *Store) Trusts(sum [sha256.Size]byte, signatures []v1alpha1.Signature) error {
	if _, own := s.own.Load("sha256:" + hex.EncodeToString(sum[:])); own {
		return nil
	}
	return s.Trusted.Verify(sum, signatures)
}

// Bytes returns a module's bytes, if they may run here. Keys may have been
// trusted, or withdrawn, since it was uploaded.
func (s *Store) Bytes(ctx context.Context, name string) (digest string, wasm []byte, err error) {
	if digest, err = v1alpha1.Digest(name); err != nil {
		return "", nil, err
	}
	var signatures []v1alpha1.Signature
	version := ""
	if m := s.moduleOf(digest); m != nil {
		signatures, version = m.Spec.Signatures, m.ResourceVersion
	}
	if wasm, err = s.Objects.Blob(ctx, digest); errors.Is(err, store.ErrNotFound) {
		return "", nil, UnavailableError{fmt.Errorf("module %s: %w", name, errNoModule), version}
	}
	if err != nil {
		return "", nil, HostError{fmt.Errorf("module %s: %w", name, err)}
	}
	if err := s.Trusts(sha256.Sum256(wasm), signatures); err != nil {
		return "", nil, UnavailableError{fmt.Errorf("module %s: %w", name, err), version}
	}
	return digest, wasm, nil
}

// moduleOf is the Module of a digest; nil if there is none.
func (s *Store) moduleOf(digest string) *v1alpha1.Module {
	o, _ := s.Objects.Get(store.Key{Resource: v1alpha1.Modules, Name: v1alpha1.ModuleName(digest)})
	m, _ := o.(*v1alpha1.Module)
	return m
}

// Load makes a module ready, if it may run here.
//
// # Errors
//
// UnavailableError, HostError, or else what is wrong with the module or its name.
func (s *Store) Load(ctx context.Context, name string, limits vet.Limits) (*engine.Module, error) {
	if m := s.loaded(name, limits); m != nil {
		return m, nil
	}
	_, wasm, err := s.Bytes(ctx, name)
	if err != nil {
		return nil, err
	}
	m, err := s.Engine.Load(ctx, wasm, limits)
	if err != nil && !isModules(err) {
		return nil, HostError{err}
	}
	return m, err
}

// loaded is a module that is in memory already, so that its bytes need not be
// read; nil if it is not. Whether it may run here is asked as of any other.
func (s *Store) loaded(name string, limits vet.Limits) *engine.Module {
	digest, err := v1alpha1.Digest(name)
	if err != nil {
		return nil
	}
	m := s.moduleOf(digest)
	sum := sumOf(digest)
	if m == nil || s.Trusts(sum, m.Spec.Signatures) != nil {
		return nil
	}
	return s.Engine.Loaded(sum, limits)
}

// sumOf is the sum in a digest that Digest has checked.
func sumOf(digest string) (sum [sha256.Size]byte) {
	_, _ = hex.Decode(sum[:], []byte(digest[len("sha256:"):]))
	return sum
}

// Version is that of a Module, empty if there is none.
func (s *Store) Version(name string) string {
	digest, err := v1alpha1.Digest(name)
	if err != nil {
		return ""
	}
	o, ok := s.Objects.Get(store.Key{Resource: v1alpha1.Modules, Name: v1alpha1.ModuleName(digest)})
	if !ok {
		return ""
	}
	return o.GetResourceVersion()
}
