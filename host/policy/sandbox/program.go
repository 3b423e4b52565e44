package sandbox

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
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// Program is a policy that can be opened as many sandboxes as are wanted: a
// module, which of its policies, and the config.
type Program struct {
	name     string // the Policy's
	module   *engine.Module
	entry    *abi.Policy
	counts   []count
	opening  []byte // what berth_open is given
	info     framework.Info
	most     engine.Fuel // of a call
	pace     *pace
	reasons  *framework.Reasons
	health   *Health
	guestLog *GuestLog
	log      *slog.Logger
	holds    *holds
}

// Spec is what makes a program what it is.
type Spec struct {
	Name     string
	Module   *engine.Module
	Entry    *abi.Policy
	Counters []abi.Counter
	Config   json.RawMessage
	Limits   v1alpha1.PolicyLimits
}

const defaultCall = 5 * time.Millisecond

// NewProgram makes a program that is not opened yet.
func NewProgram(s Spec, reasons *framework.Reasons, health *Health, words *GuestLog, log *slog.Logger) (*Program, error) {
	opening, err := json.Marshal(abi.OpenConfig{Policy: s.Entry.Name, Config: s.Config})
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	call := defaultCall
	if ms := s.Limits.CallMilliseconds; ms > 0 {
		call = time.Duration(ms) * time.Millisecond
	}
	entry := *s.Entry // the rest of a manifest of many policies need not stay
	p := &Program{
		name: s.Name, module: s.Module, entry: &entry, opening: opening,
		counts: newCounts(s.Counters), most: engine.ForTime(call), pace: new(pace), reasons: reasons, health: health, guestLog: words,
		holds: &holds{n: 1}, log: log.With("policy", s.Name, "digest", s.Module.Digest()),
	}
	p.info = framework.Info{
		Name: s.Name, Reads: s.Entry.Groups(), Scope: s.Entry.ScopeOf(), Normalize: s.Entry.Normalization(),
		SkipDependsOn: s.Entry.SkipDependsOnGroups(), Identity: identity(s.Module.Digest(), opening, s.Limits),
	}
	return p, nil
}

// Name is the Policy's.
func (p *Program) Name() string { return p.name }

// Kind is the entry's, as the manifest has it.
func (p *Program) Kind() string { return p.entry.Kind }

// Entry is the name of the entry.
func (p *Program) Entry() string { return p.entry.Name }

// Digest is the module's.
func (p *Program) Digest() string { return p.module.Digest() }

// Identity covers all that its answers depend on beside pod and rows.
func (p *Program) Identity() [32]byte { return p.info.Identity }

// Cacheable says whether its answers may be remembered.
func (p *Program) Cacheable() bool { return p.info.Cacheable() }

// Health is how it has been doing.
func (p *Program) Health() *Health { return p.health }

// size is how much a guest is told of a cluster, in nodes: budgets are by that.
func (p *Program) size(log snapshot.Log) int {
	slots := int(log.Slots())
	if p.info.Reads&abi.Pods != 0 {
		slots += engine.SlotsOfPods(log.Pods())
	}
	slots += engine.SlotsOfObjects(log.ObjectsOf(p.info.Reads))
	return slots
}

// Why is the text of a reason that it gave.
func (p *Program) Why(reason framework.ReasonID) string { return p.reasons.Get(reason).Text }

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

// Open makes an instance with the policy chosen and configured, ErrClosed once
// the program is given back.
func (p *Program) Open(ctx context.Context, rank engine.MemoryPriority) (*engine.Instance, error) {
	if !p.Hold() {
		return nil, engine.ErrClosed
	}
	defer p.Release()
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
func (p *Program) say(level slog.Level, message string) {
	ok, lost := p.guestLog.admit(time.Now())
	if !ok {
		return
	}
	if lost > 0 {
		p.tell(slog.LevelWarn, fmt.Sprintf("%d lines dropped: the policy's guests say too much", lost))
	}
	p.tell(level, message)
}

func (p *Program) tell(level slog.Level, message string) {
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
func (p *Program) count(index, n uint32) {
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
