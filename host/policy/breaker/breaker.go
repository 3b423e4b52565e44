// Package breaker keeps away from what keeps failing. It is pure: times go in.
//
//	          K failures in a window              after Rest
//	Closed ───────────────────────► Open ─────────────────────► HalfOpen
//	  ▲                               ▲   one failure of the trial   │
//	  │                               └──────────────────────────────┤
//	  └──────────────────────────────────────────────────────────────┘
//	                       Trial successes in a row
package breaker

import (
	"slices"
	"time"
)

// State is where a breaker stands.
type State uint8

const (
	Closed State = iota
	Open
	HalfOpen
)

func (s State) String() string { return [...]string{"Closed", "Open", "HalfOpen"}[s%3] }

// Limits tune a breaker.
type Limits struct {
	// Failures within Window open it.
	Failures int
	Window   time.Duration
	// Rest is how long it stays open; it doubles each time that the trial
	// fails, up to MaxRest.
	Rest, MaxRest time.Duration
	// Trial is how many successes in a row close a half-open one.
	Trial int
}

// Default are limits that suit guests.
var Default = Limits{Failures: 5, Window: 30 * time.Second, Rest: 10 * time.Second, MaxRest: 10 * time.Minute, Trial: 16}

// Breaker counts one thing's failures. It belongs to one goroutine.
type Breaker struct {
	limits   Limits
	state    State
	failures []time.Time // of the window, oldest first
	until    time.Time
	rest     time.Duration
	good     int
}

// New returns a closed breaker.
func New(l Limits) *Breaker { return &Breaker{limits: l, rest: l.Rest} }

// Copy is another that begins where this one stands.
func (b *Breaker) Copy() *Breaker {
	c := *b
	c.failures = slices.Clone(b.failures)
	return &c
}

// State is where it stands.
func (b *Breaker) State() State { return b.state }

// Allow says whether to go on now; it lets a trial begin once the rest is over.
func (b *Breaker) Allow(now time.Time) bool {
	if b.state == Open && !now.Before(b.until) {
		b.state, b.good = HalfOpen, 0
	}
	return b.state != Open
}

// Try begins a trial at once, whatever came before.
func (b *Breaker) Try() { b.state, b.good = HalfOpen, 0 }

// Fail counts a failure and says whether it opened the breaker.
func (b *Breaker) Fail(now time.Time) bool {
	switch b.state {
	case Open:
		return false
	case HalfOpen:
		b.rest = min(2*b.rest, b.limits.MaxRest)
		b.open(now)
		return true
	}
	keep := 0
	for keep < len(b.failures) && now.Sub(b.failures[keep]) > b.limits.Window {
		keep++
	}
	b.failures = append(b.failures[keep:], now)
	if len(b.failures) < b.limits.Failures {
		return false
	}
	b.open(now)
	return true
}

func (b *Breaker) open(now time.Time) {
	b.state, b.until, b.failures = Open, now.Add(b.rest), nil
}

// Succeed counts a success and says whether it closed a half-open breaker.
func (b *Breaker) Succeed() bool {
	if b.state != HalfOpen {
		return false
	}
	if b.good++; b.good < b.limits.Trial {
		return false
	}
	b.state, b.rest = Closed, b.limits.Rest
	return true
}
