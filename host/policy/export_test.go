package policy

import (
	"context"

	"github.com/berth-dev/berth/host/policy/module"
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
func (l *Loader) Collect(ctx context.Context) { l.Modules.Collect(ctx) }

// What may be kept ready.
const (
	MaxReady      = module.MaxReady
	MaxReadyBytes = module.MaxReadyBytes
)

// ReadyBytes is what the modules take that are kept ready.
func (l *Loader) ReadyBytes() int64 { return l.Modules.Ready.Bytes() }

// IsReady says whether a module is kept ready.
func (l *Loader) IsReady(digest string) bool { return l.Modules.Ready.Has(digest) }

// ForgetReady lets go of them all.
func (l *Loader) ForgetReady() { l.Modules.Ready.Clear() }
