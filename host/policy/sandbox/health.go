package sandbox

import (
	"errors"
	"maps"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-dev/berth/host/policy/breaker"
	"github.com/berth-dev/berth/host/policy/engine"
)

// Health is how one Policy has been doing: what its guests used, and whether
// it may still be asked. All sandboxes of the Policy share it.
type Health struct {
	calls, failures, traps, fuel, nanos atomic.Int64
	// memory is what the guest that was called last had after the call.
	memory atomic.Uint64

	rows, refusals atomic.Int64
	lasting        [len(CallBuckets) + 1]atomic.Int64 // calls, by how long they took
	tried          atomic.Bool                        // the breaker is not closed

	mu      sync.Mutex
	breaker *breaker.Breaker
	last    error
	// blamed are the parents at which a controller has failed.
	blamed map[string]bool
	// broken counts answers of a controller by the rule that they broke.
	broken map[string]int64

	// OnFailure is told of each failure; it is set before the program is asked.
	OnFailure func(error)
	// changed is told when the policy is quarantined and when it is let out.
	changed func()
}

// CallBuckets are the bounds between which calls are counted.
var CallBuckets = [...]time.Duration{
	2 * time.Microsecond, 10 * time.Microsecond, 50 * time.Microsecond, 200 * time.Microsecond, time.Millisecond,
	5 * time.Millisecond, 25 * time.Millisecond, 100 * time.Millisecond, time.Second,
}

// NewHealth is that of a program which did nothing yet; changed is told when it is
// quarantined and when it is let out.
func NewHealth(changed func()) *Health {
	return &Health{changed: changed, breaker: breaker.New(breaker.Default)}
}

// Copy begins where this one stands, and nobody hears of it.
func (h *Health) Copy() *Health {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := &Health{changed: func() {}, breaker: h.breaker.Copy(), last: h.last}
	c.tried.Store(h.tried.Load())
	return c
}

// OnTrial lets a policy that was quarantined when the host ended begin half
// open: one failure, and it is quarantined again.
func (h *Health) OnTrial() *Health {
	h.breaker.Try()
	h.tried.Store(true)
	return h
}

// called counts a call that went well; one that answers speaks for a guest on
// trial.
func (h *Health) called(took time.Duration, fuel engine.Fuel, memory uint64, answers bool) {
	h.calls.Add(1)
	h.memory.Store(memory)
	h.fuel.Add(int64(fuel))
	h.nanos.Add(int64(took))
	h.lasting[sort.Search(len(CallBuckets), func(i int) bool { return took <= CallBuckets[i] })].Add(1)
	if !answers || !h.tried.Load() {
		return
	}
	h.mu.Lock()
	closed := h.breaker.Succeed()
	h.mu.Unlock()
	if closed {
		h.tried.Store(false)
		h.changed()
	}
}

// failed counts a failure against the policy. One that fails about the same parent
// again and again is kept from that one, by whoever asks, and not from all others.
func (h *Health) failed(now time.Time, err error, parent string) {
	h.failures.Add(1)
	if trapped(err) {
		h.traps.Add(1)
	}
	h.mu.Lock()
	h.last = err
	turned := !h.knows(parent) && h.breaker.Fail(now)
	h.mu.Unlock()
	if turned {
		h.tried.Store(true)
		h.changed()
	}
	if h.OnFailure != nil {
		h.OnFailure(err)
	}
}

// maxBlamed bounds the parents that are remembered.
const maxBlamed = 1 << 10

// knows says whether it has failed about a parent before, and notes that it has.
func (h *Health) knows(parent string) bool {
	if parent == "" {
		return false
	}
	known := h.blamed[parent]
	if h.blamed == nil || len(h.blamed) >= maxBlamed {
		h.blamed = map[string]bool{}
	}
	h.blamed[parent] = true
	return known
}

// allow says whether the policy may be asked now.
func (h *Health) allow(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.breaker.Allow(now)
}

// State is whether the policy is quarantined, and its last failure.
func (h *Health) State() (quarantined bool, last error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.breaker.State() != breaker.Closed, h.last
}

// broke counts an answer that broke a rule, which is no failure.
func (h *Health) broke(rule string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.broken == nil {
		h.broken = map[string]int64{}
	}
	h.broken[rule]++
}

// Broken are the answers that broke rules, by rule.
func (h *Health) Broken() map[string]int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.broken)
}

// Failures is how often it has failed.
func (h *Health) Failures() int64 { return h.failures.Load() }

// judged counts rows, and how many of them were refused.
func (h *Health) judged(rows, refused int) {
	h.rows.Add(int64(rows))
	h.refusals.Add(int64(refused))
}

// trapped tells what ended a guest's code from answers that are none.
func trapped(err error) bool {
	var f *engine.Failure
	return errors.As(err, &f) && (f.Kind == engine.Trap || f.Kind == engine.FuelSpent || f.Kind == engine.StackSpent)
}

// SpentFuel tells a budget's end from other failures.
func SpentFuel(err error) bool {
	var f *engine.Failure
	return errors.As(err, &f) && f.Kind == engine.FuelSpent
}
