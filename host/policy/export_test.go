package policy

import (
	"context"
	"slices"

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
func (l *Loader) Collect(ctx context.Context) { l.collect(ctx) }

// ReadObserves is what a checker with that config wants observed.
func ReadObserves(config []byte) ([]abi.Observe, error) {
	g, err := newGate(newSandbox(&program{entry: &abi.Policy{}}), config)
	if err != nil {
		return nil, err
	}
	return g.Observes(), nil
}

// What may stay loaded after it was examined.
const (
	MostExamined      = mostExamined
	MostExaminedBytes = mostExaminedBytes
)

// ExaminedBytes is what the modules take that were examined lately.
func (l *Loader) ExaminedBytes() int64 {
	l.examined.mu.Lock()
	defer l.examined.mu.Unlock()
	return l.examined.bytes
}

// IsExamined says whether a module stays loaded since it was examined.
func (l *Loader) IsExamined(digest string) bool {
	l.examined.mu.Lock()
	defer l.examined.mu.Unlock()
	return slices.ContainsFunc(l.examined.all, func(one examination) bool { return one.Digest() == digest })
}

// ForgetExamined lets go of them all.
func (l *Loader) ForgetExamined() { l.examined.clear() }
