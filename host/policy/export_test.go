package policy

import (
	"context"
)

// Digests are those of the modules that decide in the set, by policy.
func (s *Set) Digests() map[string]string {
	all := map[string]string{}
	for name, one := range s.policies {
		if one.version != nil {
			all[name] = one.program.Digest()
		}
	}
	return all
}

// Collect collects what nobody uses, as Run does from time to time.
func (l *Loader) Collect(ctx context.Context) { l.collectGarbage(ctx) }

// What may be kept ready.
const (
	MaxReady      = maxReady
	MaxReadyBytes = maxReadyBytes
)

// ReadyBytes is what the modules take that are kept ready.
func (l *Loader) ReadyBytes() int64 {
	l.ready.mu.Lock()
	defer l.ready.mu.Unlock()
	return l.ready.bytes
}

// IsReady says whether a module is kept ready.
func (l *Loader) IsReady(digest string) bool { return l.ready.has(digest) }

// ForgetReady lets go of them all.
func (l *Loader) ForgetReady() { l.ready.clear() }
