package policy

import (
	"time"

	"github.com/berth-dev/berth/abi"
)

// Figures are what one Policy's live program has used since it went live.
type Figures struct {
	Name   string `json:"name"`
	Kind   string `json:"kind"`
	Digest string `json:"digest"`
	// Calls succeeded, Failures did not; Traps are those of the failures in which
	// the guest ran into a trap, or out of fuel or stack.
	Calls    int64 `json:"calls"`
	Failures int64 `json:"failures"`
	Traps    int64 `json:"traps"`
	// Rows were judged or scored, Refusals of them were refused. Answers that the
	// host remembered are not among them.
	Rows     int64 `json:"rows"`
	Refusals int64 `json:"refusals"`
	// Fuel and Time were spent in the calls.
	Fuel int64         `json:"fuel"`
	Time time.Duration `json:"time"`
	// Quarantined says that the policy is not asked for the time being.
	Quarantined bool   `json:"quarantined"`
	LastFailure string `json:"lastFailure,omitempty"`
	// Counters are the guest's own.
	Counters []Count `json:"counters,omitempty"`
}

// Count is one of a module's own counters.
type Count struct {
	abi.Counter
	N int64 `json:"n"`
}

// Figures returns those of all live policies, by name.
func (l *Loader) Figures() []Figures {
	set := l.Current()
	all := make([]Figures, 0, len(set.policies))
	for _, name := range set.ordered() {
		if v := set.policies[name].version; v != nil {
			all = append(all, v.program.figures())
		}
	}
	return all
}

// Digest is that of the module by which a policy is live.
func (l *Loader) Digest(name string) (digest string, ok bool) {
	one := l.Current().policies[name]
	if one == nil || one.version == nil {
		return "", false
	}
	return one.program.module.Digest(), true
}

func (p *program) figures() Figures {
	h := p.health
	f := Figures{
		Name: p.name, Kind: p.entry.Kind, Digest: p.module.Digest(),
		Calls: h.calls.Load(), Failures: h.failures.Load(), Traps: h.traps.Load(),
		Rows: h.rows.Load(), Refusals: h.refusals.Load(), Fuel: h.fuel.Load(), Time: time.Duration(h.nanos.Load()),
	}
	for _, c := range p.counts {
		f.Counters = append(f.Counters, Count{c.Counter, c.n.Load()})
	}
	quarantined, last := h.state()
	if f.Quarantined = quarantined; last != nil {
		f.LastFailure = last.Error()
	}
	return f
}

// Said returns the last lines of the guests that a Policy has and had, the
// oldest first; ok says that there is such a Policy.
func (l *Loader) GuestLog(name string) (lines []Line, ok bool) {
	if l.Current().policies[name] == nil {
		return nil, false
	}
	return l.guestLogs.of(name).all(), true
}
