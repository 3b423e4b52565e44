package policy

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/schedule/framework"
)

// program is a policy that can be opened as many sandboxes as are wanted: a
// module, which of its policies, and the config.
type program struct {
	name     string // the Policy's
	module   *engine.Module
	entry    *abi.Policy
	counts   []count
	opening  []byte // what berth_open is given
	info     framework.Info
	most     engine.Fuel // of a call
	pace     *pace
	reasons  *framework.Reasons
	health   *health
	guestLog *guestLog
	log      *slog.Logger
	holds    *holds
}

// programSpec is what makes a program what it is.
type programSpec struct {
	name     string
	module   *engine.Module
	entry    *abi.Policy
	counters []abi.Counter
	config   json.RawMessage
	limits   v1alpha1.PolicyLimits
}

const defaultCall = 5 * time.Millisecond

func newProgram(s programSpec, reasons *framework.Reasons, health *health, words *guestLog, log *slog.Logger) (*program, error) {
	opening, err := json.Marshal(abi.OpenConfig{Policy: s.entry.Name, Config: s.config})
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	call := defaultCall
	if ms := s.limits.CallMilliseconds; ms > 0 {
		call = time.Duration(ms) * time.Millisecond
	}
	entry := *s.entry // the rest of a manifest of many policies need not stay
	p := &program{
		name: s.name, module: s.module, entry: &entry, opening: opening,
		counts: newCounts(s.counters), most: engine.ForTime(call), pace: new(pace), reasons: reasons, health: health, guestLog: words,
		holds: &holds{n: 1}, log: log.With("policy", s.name, "digest", s.module.Digest()),
	}
	p.info = framework.Info{
		Name: s.name, Reads: s.entry.Groups(), Scope: s.entry.ScopeOf(), Normalize: s.entry.Normalization(),
		SkipDependsOn: s.entry.SkipDependsOnGroups(), Identity: identity(s.module.Digest(), opening, s.limits),
	}
	return p, nil
}

// identity covers all that answers depend on beside pod and rows. Limits are in
// it where there are some: what decided within large ones may fail in others.
func identity(digest string, opening []byte, limits v1alpha1.PolicyLimits) [32]byte {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%d\n", digest, len(opening))
	h.Write(opening)
	if limits != (v1alpha1.PolicyLimits{}) {
		fmt.Fprintf(h, "\n%d\n%d", limits.MemoryBytes, limits.CallMilliseconds)
	}
	return [32]byte(h.Sum(nil))
}

// open makes an instance with the policy chosen and configured, ErrClosed once
// the program is given back.
func (p *program) open(ctx context.Context, rank engine.MemoryPriority) (*engine.Instance, error) {
	if !p.hold() {
		return nil, engine.ErrClosed
	}
	defer p.release()
	i, err := p.module.Open(ctx, engine.OpenConfig{Log: p.say, Count: p.count, MemoryPriority: rank})
	if err != nil {
		return nil, err
	}
	r, err := i.Call(engine.FuncOpen, p.opening, engine.OpenBudget)
	if err == nil && r.Status != abi.StatusOK {
		err = fmt.Errorf("config is refused: %s", complaint(i))
	}
	if err == nil {
		err = i.Watch(engine.MaxBudget)
	}
	if err != nil {
		i.Close()
		return nil, err
	}
	return i, nil
}

// say puts a guest's own words into the host's log.
func (p *program) say(level slog.Level, message string) {
	ok, lost := p.guestLog.admit(time.Now())
	if !ok {
		return
	}
	if lost > 0 {
		p.tell(slog.LevelWarn, fmt.Sprintf("%d lines dropped: the policy's guests say too much", lost))
	}
	p.tell(level, message)
}

func (p *program) tell(level slog.Level, message string) {
	p.log.Log(context.Background(), level, "guest says", "message", message)
	p.guestLog.add(level, p.module.Digest(), message)
}

// count is one of the module's own counters.
type count struct {
	abi.Counter
	n *atomic.Int64
}

func newCounts(declared []abi.Counter) []count {
	counts := make([]count, len(declared))
	for i, c := range declared {
		counts[i] = count{c, new(atomic.Int64)}
	}
	return counts
}

// count adds to a counter that the manifest declares; others are passed over.
func (p *program) count(index, n uint32) {
	if int64(index) < int64(len(p.counts)) {
		p.counts[index].n.Add(int64(n))
	}
}

// complaint asks the guest for the text of its last failure.
func complaint(i *engine.Instance) string {
	r, err := i.Call(engine.FuncError, nil, engine.MaxBudget)
	if err != nil || len(r.Out) == 0 {
		return "the guest does not say why"
	}
	return abi.Text(string(r.Out), abi.MaxText)
}
