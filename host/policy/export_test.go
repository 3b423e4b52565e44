package policy

import (
	"context"

	"github.com/berth-dev/berth/abi"
)

// Digests are those of the modules that decide in the set, by policy.
func (s *Set) Digests() map[string]string {
	all := map[string]string{}
	for name, one := range s.policies {
		if one.program != nil {
			all[name] = one.program.module.Digest()
		}
	}
	return all
}

// Collect collects what nobody uses, as Run does from time to time.
func (l *Loader) Collect(ctx context.Context) { l.collectGarbage(ctx) }

// CheckConditionTypes says whether a gate may claim them.
func CheckConditionTypes(types ...string) error { return checkConditionTypes(types) }

// ReadObserves is what a checker with that config wants observed.
func ReadObserves(config []byte) ([]abi.Observe, error) {
	return ObservesInstead(nil, config)
}

// ObservesInstead is ReadObserves of a checker whose manifest wants some.
func ObservesInstead(manifest []abi.Observe, config []byte) ([]abi.Observe, error) {
	g, err := newGate(newSandbox(&program{entry: &abi.Policy{Observe: manifest}}), config)
	if err != nil {
		return nil, err
	}
	return g.Observes(), nil
}

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
