package controller

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// A parent may be reconciled often in a row, as its children come, and once a
// pause in the long run: whatever its guest wishes, and also where what it
// answers brings about the next question.
const (
	burst = 50
	pause = 100 * time.Millisecond
	// coalesce is how long changes wait at least for more of them, rest how many
	// times as long as the last ask took, and maxSettle how long at most.
	coalesce  = 20 * time.Millisecond
	rest      = 3
	maxSettle = time.Second
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
	used  int
	since time.Time // of the first that counts
	ended time.Time // the last of them
	took  time.Duration
}

// wait takes one ask of a parent, or says how long to wait for it.
func (p *pace) wait(name types.NamespacedName, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.parents[name]
	if a == nil {
		a = &asks{since: now}
		if p.parents == nil {
			p.parents = map[types.NamespacedName]*asks{}
		}
		p.parents[name] = a
	}
	if back := int(now.Sub(a.since) / pause); back > 0 {
		a.used = max(a.used-back, 0)
		a.since = a.since.Add(time.Duration(back) * pause)
	}
	if a.used >= burst {
		return a.since.Add(pause).Sub(now)
	}
	a.used++
	return 0
}

// took remembers how long an ask of a parent took, all in all.
func (p *pace) took(name types.NamespacedName, took time.Duration, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a := p.parents[name]; a != nil {
		a.ended, a.took = now, took
	}
}

// settle is how long changes wait for more of them: a moment where the parent was
// looked at just now, so that one with thousands of children is not reconciled
// for each; and longer where that takes long.
func (p *pace) settle(name types.NamespacedName, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.parents[name]
	if a == nil {
		return 0
	}
	return min(max(coalesce, rest*a.took), maxSettle) - now.Sub(a.ended)
}

// forget drops a parent that is gone.
func (p *pace) forget(name types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.parents, name)
}
