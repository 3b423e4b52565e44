package policy

import (
	"time"
)

// Figures are what one Policy's live program has used since it went live.
type Figures struct {
	Name   string `json:"name"`
	Kind   string `json:"kind"`
	Digest string `json:"digest"`
	// Calls succeeded, Failures did not.
	Calls    int64 `json:"calls"`
	Failures int64 `json:"failures"`
	// Fuel and Time were spent in the calls.
	Fuel int64         `json:"fuel"`
	Time time.Duration `json:"time"`
	// Quarantined says that the policy is not asked for the time being.
	Quarantined bool   `json:"quarantined"`
	LastFailure string `json:"lastFailure,omitempty"`
}

// Figures returns those of all live policies, by name.
func (l *Loader) Figures() []Figures {
	set := l.Current()
	all := make([]Figures, 0, len(set.policies))
	for _, name := range set.ordered() {
		if p := set.policies[name].program; p != nil {
			all = append(all, p.figures())
		}
	}
	return all
}

func (p *program) figures() Figures {
	h := p.health
	f := Figures{
		Name: p.name, Kind: p.entry.Kind, Digest: p.module.Digest(),
		Calls: h.calls.Load(), Failures: h.failures.Load(), Fuel: h.fuel.Load(), Time: time.Duration(h.nanos.Load()),
	}
	quarantined, last := h.state()
	if f.Quarantined = quarantined; last != nil {
		f.LastFailure = last.Error()
	}
	return f
}

// Said returns the last lines of a live policy's guests, the oldest first; ok
// says that there is such a policy.
func (l *Loader) Said(name string) (lines []Line, ok bool) {
	one := l.Current().policies[name]
	if one == nil || one.program == nil {
		return nil, false
	}
	h := one.program.health
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.words.all(), true
}
