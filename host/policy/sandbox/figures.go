package sandbox

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
	// Memory is what the guest that was called last had then, in bytes. A policy
	// has several guests where calls run at once.
	Memory uint64 `json:"memory"`
	// Lasting are the calls that took up to each of CallBuckets and more than the
	// one before; the last took longer than all.
	Lasting []int64 `json:"lasting"`
	// Quarantined says that the policy is not asked for the time being.
	Quarantined bool   `json:"quarantined"`
	LastFailure string `json:"lastFailure,omitempty"`
	// Broken counts sampled answers of a controller by the rule that they broke.
	Broken map[string]int64 `json:"broken,omitempty"`
	// Counters are the guest's own.
	Counters []Count `json:"counters,omitempty"`
}

// Count is one of a module's own counters.
type Count struct {
	abi.Counter
	N int64 `json:"n"`
}

// Figures are the program's.
func (p *Program) Figures() Figures {
	h := p.health
	f := Figures{
		Name: p.name, Kind: p.entry.Kind, Digest: p.module.Digest(),
		Calls: h.calls.Load(), Failures: h.failures.Load(), Traps: h.traps.Load(),
		Rows: h.rows.Load(), Refusals: h.refusals.Load(), Fuel: h.fuel.Load(), Time: time.Duration(h.nanos.Load()),
		Memory: h.memory.Load(), Broken: h.Broken(),
	}
	for i := range h.lasting {
		f.Lasting = append(f.Lasting, h.lasting[i].Load())
	}
	for _, c := range p.counts {
		f.Counters = append(f.Counters, Count{c.Counter, c.n.Load()})
	}
	quarantined, last := h.State()
	if f.Quarantined = quarantined; last != nil {
		f.LastFailure = last.Error()
	}
	return f
}
