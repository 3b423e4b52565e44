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
	last  time.Time
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
	a.last = now
	return 0
}

// quiet tells whether a parent was not asked about just now.
func (p *pace) quiet(name types.NamespacedName, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.parents[name]
	return a == nil || now.Sub(a.last) >= coalesce
}

// forget drops a parent that is gone.
func (p *pace) forget(name types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.parents, name)
}
