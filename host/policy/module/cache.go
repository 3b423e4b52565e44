package module

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/policy/vet"
	"github.com/berth-dev/berth/host/store"
)

// How many modules are kept ready, and how many bytes of memory they may take
// together.
const (
	MaxReady      = 16
	MaxReadyBytes = 48 << 20
)

// Cache keeps modules loaded that a Policy will most likely name next, those
// that were uploaded last: a swap to one of them neither vets nor links it again.
type Cache struct {
	mu    sync.Mutex
	all   []*engine.Module // oldest first
	bytes int64
}

// keep takes a module over, and lets go of the oldest where there are too many.
func (r *Cache) keep(m *engine.Module) {
	r.drop(m.Digest())
	r.mu.Lock()
	r.all, r.bytes = append(r.all, m), r.bytes+m.Bytes()
	n, rest := 0, r.bytes
	for len(r.all)-n > MaxReady || rest > MaxReadyBytes {
		rest -= r.all[n].Bytes()
		n++
	}
	leaving := slices.Clone(r.all[:n])
	r.all, r.bytes = slices.Delete(r.all, 0, n), rest
	r.mu.Unlock()
	closeModules(leaving)
}

// keepOlder takes over a module that is older than all the others, if there is
// room for it.
func (r *Cache) keepOlder(m *engine.Module) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.all) == MaxReady || r.bytes+m.Bytes() > MaxReadyBytes {
		return false
	}
	r.all, r.bytes = slices.Insert(r.all, 0, m), r.bytes+m.Bytes()
	return true
}

// drop lets go of a module.
func (r *Cache) drop(digest string) {
	r.mu.Lock()
	var leaving []*engine.Module
	r.all = slices.DeleteFunc(r.all, func(one *engine.Module) bool {
		if one.Digest() != digest {
			return false
		}
		leaving = append(leaving, one)
		r.bytes -= one.Bytes()
		return true
	})
	r.mu.Unlock()
	closeModules(leaving)
}

// Has says whether a module is kept.
func (r *Cache) Has(digest string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.all, func(one *engine.Module) bool { return one.Digest() == digest })
}

// Clear lets go of all.
func (r *Cache) Clear() {
	r.mu.Lock()
	leaving := r.all
	r.all, r.bytes = nil, 0
	r.mu.Unlock()
	closeModules(leaving)
}

// Bytes is what they take in memory.
func (r *Cache) Bytes() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bytes
}

func closeModules(all []*engine.Module) {
	for _, one := range all {
		one.Close()
	}
}

// gone lets go of modules that were deleted.
func (r *Cache) gone(events []store.Event) {
	for _, ev := range events {
		if digest, err := v1alpha1.Digest(ev.Key.Name); err == nil && ev.Type == store.Deleted {
			r.drop(digest)
		}
	}
}

// MakeReady loads the modules that were uploaded last or that policies may go
// back to, the newest first, as if they had come since the host was started. It
// comes after the first Load.
func (s *Store) MakeReady(ctx context.Context) error {
	policies, err := s.policies()
	if err != nil {
		s.Log.Warn("read policies", "err", err)
		return nil
	}
	for _, p := range policies {
		s.Ready.drop(p.Status.Live) // the policy itself has it loaded
	}
	for _, digest := range s.newest(policies) {
		if ctx.Err() != nil {
			return nil
		}
		if s.Ready.Has(digest) {
			continue
		}
		m, err := s.Load(ctx, digest, vet.DefaultLimits())
		if err != nil {
			s.Log.Debug("module is not made ready", "digest", digest, "err", err)
			continue
		}
		if !s.Ready.keepOlder(m) {
			m.Close()
			return nil
		}
		if s.moduleOf(digest) == nil {
			s.Ready.drop(digest) // deleted meanwhile
		}
	}
	return nil
}

// newest are the digests of the modules that no policy runs, those first that
// were uploaded, or last live, most lately.
func (s *Store) newest(policies []*v1alpha1.Policy) (digests []string) {
	list, err := s.Objects.List(v1alpha1.Modules, "", store.ListOptions{})
	if err != nil {
		s.Log.Warn("list modules", "err", err)
		return nil
	}
	wanted := map[string]time.Time{}
	for _, o := range list.Items {
		if m, ok := o.(*v1alpha1.Module); ok {
			wanted[m.Spec.Digest] = m.CreationTimestamp.Time
		}
	}
	for _, p := range policies {
		for _, r := range p.Status.History {
			digest, err := v1alpha1.Digest(r.Module)
			if at, known := wanted[digest]; err == nil && known && r.Until != nil && r.Until.After(at) {
				wanted[digest] = r.Until.Time
			}
		}
	}
	for _, p := range policies {
		delete(wanted, p.Status.Live)
	}
	for digest := range wanted {
		digests = append(digests, digest)
	}
	slices.SortFunc(digests, func(a, b string) int {
		return cmp.Or(wanted[b].Compare(wanted[a]), cmp.Compare(a, b))
	})
	return digests
}
