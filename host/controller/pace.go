package controller

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// A parent may be reconciled often in a row, and once a pause in the long run:
// more often for what others do, such as nodes that run its pods, than for what
// its guest wishes or its own answers bring about.
const (
	burst, pause             = 50, 100 * time.Millisecond
	othersBurst, othersPause = 1000, 10 * time.Millisecond
	// coalesce is how long changes wait at least for more of them, rest how many
	// times as long as the last ask took, and maxSettle how long at most.
	coalesce  = 2 * time.Millisecond
	rest      = 3
	maxSettle = time.Second
	// An ask of a parent that took long waits for more: for changes of a share of
	// its children, until there are none for a while, or until a longer rest is over.
	long        = 5 * time.Millisecond
	share       = 8
	longRest    = 20
	maxLongRest = 4 * time.Second
	// maxWait is the latest that a guest can be asked again: what waits
	// longer would outlive its parent.
	maxWait = time.Hour
)

// pace bounds how often each parent is reconciled.
type pace struct {
	mu      sync.Mutex
	parents map[types.NamespacedName]*asks
}

// asks are those of one parent that count still.
type asks struct {
	own, others allowance
	// heard counts changes since the last ask, less those that it made itself.
	heard   int
	heardAt time.Time // the last of them
	ended   time.Time // the last ask
	took    time.Duration
	// told is of how many children and related objects the guest was told last.
	told int
	// now: what is to be asked is no change of those, or follows from what the last
	// answer wrote of them.
	now bool
}

// due is when to ask of a parent whose children change. What counts thousands of
// them is not told of each: it would go through all again for one.
func (a *asks) due() time.Time {
	quiet := min(max(coalesce, rest*a.took), maxSettle)
	soonest := a.ended.Add(quiet)
	if a.now || a.took < long || a.heard*share >= a.told {
		return soonest
	}
	latest := a.ended.Add(min(longRest*a.took, maxLongRest))
	if calm := a.heardAt.Add(quiet); calm.Before(latest) {
		return calm
	}
	return latest
}

// allowance holds asks that count still.
type allowance struct {
	used  int
	since time.Time // of the first that counts
}

// take counts one more, or says how long to wait for it.
func (b *allowance) take(now time.Time, burst int, pause time.Duration) time.Duration {
	if b.since.IsZero() {
		b.since = now
	}
	if back := int(now.Sub(b.since) / pause); back > 0 {
		b.used = max(b.used-back, 0)
		b.since = b.since.Add(time.Duration(back) * pause)
	}
	if b.used >= burst {
		return b.since.Add(pause).Sub(now)
	}
	b.used++
	return 0
}

// wait takes one ask of a parent, or says how long to wait for it.
func (p *pace) wait(name types.NamespacedName, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.parents[name]
	if a == nil {
		a = &asks{}
		if p.parents == nil {
			p.parents = map[types.NamespacedName]*asks{}
		}
		p.parents[name] = a
	}
	if wait := a.due().Sub(now); a.heard > 0 && !a.now && wait > 0 {
		return wait
	}
	var wait time.Duration
	if a.heard > 0 {
		wait = a.others.take(now, othersBurst, othersPause)
	} else {
		wait = a.own.take(now, burst, pause)
	}
	if wait == 0 {
		a.heard, a.now = 0, false
	}
	return wait
}

// tells notes of how many objects the guest is told with a parent.
func (p *pace) tells(name types.NamespacedName, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a := p.parents[name]; a != nil {
		a.told = n
	}
}

// urge has the next ask of a parent wait for no changes of its children.
func (p *pace) urge(name types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a := p.parents[name]; a != nil {
		a.now = true
	}
}

// wrote tells that an answer about a parent is about to change so many objects,
// of which changes will be heard. Where there are others than the parent itself,
// more is to follow.
func (p *pace) wrote(name types.NamespacedName, n int, others bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a := p.parents[name]; a != nil {
		a.heard -= n
		a.now = a.now || others
	}
}

// took remembers how long an ask of a parent took, all in all.
func (p *pace) took(name types.NamespacedName, took time.Duration, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a := p.parents[name]; a != nil {
		a.ended, a.took = now, took
	}
}

// settle notes a change, and is how long it waits for more of them: a moment where
// the parent was looked at just now, and longer where that takes long.
func (p *pace) settle(name types.NamespacedName, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.parents[name]
	if a == nil {
		return 0
	}
	a.heard++
	a.heardAt = now
	return a.due().Sub(now)
}

// forget drops a parent that is gone.
func (p *pace) forget(name types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.parents, name)
}
