package module

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/store"
)

const (
	// CollectEvery is how often to Collect.
	CollectEvery = 10 * time.Minute
	// unusedFor is how long a module may wait for the first policy to use it.
	unusedFor = time.Hour
)

// Collect removes modules that no policy uses, has used lately, or will go
// back to, and bytes that no Module stands for: an upload may have ended between
// the two.
func (s *Store) Collect(ctx context.Context) {
	s.uploads.forget(s.Now())
	if err := s.collectModules(ctx); err != nil && ctx.Err() == nil {
		s.Log.Warn("collect modules", "err", err)
	}
}

func (s *Store) collectModules(ctx context.Context) error {
	// Bytes come before their object, so whatever is here and has none is left over.
	blobs, err := s.Objects.Blobs(ctx)
	if err != nil {
		return err
	}
	list, err := s.Objects.List(v1alpha1.Modules, "", store.ListOptions{})
	if err != nil {
		return err
	}
	used, err := s.usedModules()
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, o := range list.Items {
		m, ok := o.(*v1alpha1.Module)
		if !ok {
			continue
		}
		known[m.Spec.Digest] = true
		if !used[m.Spec.Digest] && s.Now().Sub(m.CreationTimestamp.Time) >= unusedFor {
			s.drop(ctx, m.Spec.Digest, m)
		}
	}
	for _, digest := range blobs {
		if !known[digest] && !used[digest] {
			s.drop(ctx, digest, nil)
		}
	}
	return nil
}

// usedModules are the digests of all modules that policies may need.
func (s *Store) usedModules() (map[string]bool, error) {
	policies, err := s.policies()
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	for _, p := range policies {
		for _, name := range References(p) {
			if digest, err := v1alpha1.Digest(name); err == nil {
				used[digest] = true
			}
		}
	}
	return used, nil
}

// References are all the modules that a Policy may need.
func References(p *v1alpha1.Policy) []string {
	names := []string{p.Spec.Module, p.Status.Live}
	if p.Status.Current != nil {
		names = append(names, p.Status.Current.Module)
	}
	if p.Spec.Canary != nil {
		names = append(names, p.Spec.Canary.Module)
	}
	for _, r := range p.Status.History {
		names = append(names, r.Module)
	}
	return names
}

// drop removes a module, unless it was uploaded lately: the object first, if
// there is one, so that nobody finds one without bytes.
func (s *Store) drop(ctx context.Context, digest string, m *v1alpha1.Module) {
	removed := s.uploads.leave(digest)
	if removed == nil {
		return
	}
	defer removed()
	err := s.remove(ctx, digest, m)
	if err != nil {
		s.Log.Warn("collect module", "digest", digest, "err", err)
		return
	}
	s.Log.Info("collected module that no policy uses", "digest", digest)
}

func (s *Store) remove(ctx context.Context, digest string, m *v1alpha1.Module) error {
	if m != nil {
		if _, _, err := s.Objects.Commit(ctx, store.Op{Kind: store.Delete, Key: store.Key{Resource: v1alpha1.Modules, Name: m.Name}}); err != nil {
			return err
		}
	}
	if err := s.Objects.DeleteBlob(ctx, digest); !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return nil
}

// maxUnused is how many bytes of modules may wait for their first policy.
const maxUnused = 1 << 30

// ErrFull says that what was uploaded lately fills the room for modules that no
// policy uses.
var ErrFull = fmt.Errorf("modules of %d MiB were uploaded within the hour that no policy uses: have policies use them, or wait until they are collected", maxUnused>>20)

// uploads keep uploads and the collector out of each other's way: what came
// lately is not collected, and what is being collected comes only after that.
type uploads struct {
	mu      sync.Mutex
	at      map[string]upload        // by digest
	leaving map[string]chan struct{} // closed when it is gone
}

// upload is when a module last came, and how many bytes it has.
type upload struct {
	at   time.Time
	size int
}

// come notes an upload; it waits while the same module is being collected. used
// are the modules that do not count against what may wait for a policy.
func (a *uploads) come(ctx context.Context, digest string, size int, used map[string]bool, now time.Time) error {
	a.mu.Lock()
	if a.at == nil {
		a.at = map[string]upload{}
	}
	if _, again := a.at[digest]; !again && !used[digest] && a.unused(used)+size > maxUnused {
		a.mu.Unlock()
		return ErrFull
	}
	a.at[digest] = upload{now, size}
	gone := a.leaving[digest]
	a.mu.Unlock()
	if gone == nil {
		return nil
	}
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// unused is how many bytes came lately that nobody uses.
func (a *uploads) unused(used map[string]bool) (bytes int) {
	for digest, came := range a.at {
		if !used[digest] {
			bytes += came.size
		}
	}
	return bytes
}

// leave returns what to call when the module is gone; nil if it came lately.
func (a *uploads) leave(digest string) func() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, lately := a.at[digest]; lately {
		return nil
	}
	if a.leaving == nil {
		a.leaving = map[string]chan struct{}{}
	}
	gone := make(chan struct{})
	a.leaving[digest] = gone
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.leaving, digest)
		close(gone)
	}
}

// forget forgets what did not come lately.
func (a *uploads) forget(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for digest, came := range a.at {
		if now.Sub(came.at) >= unusedFor {
			delete(a.at, digest)
		}
	}
}
