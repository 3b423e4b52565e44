package policy

import (
	"context"
	"sync"

	"github.com/berth-dev/berth/host/policy/sandbox"
)

// How a program leaves. Who may still ask one that is in no set any more?
//
//	a cycle that took a former set     its sandboxes stay until that cycle has ended
//	a replay, an explanation, a plan   holds the program, and opens its own sandboxes
//	a round of gates, a controller     is told ErrClosed, and turns to who came next

// retiring are programs that have left the set while a cycle may still be
// asking them, in the order in which they left.
type retiring struct {
	mu   sync.Mutex
	all  []*version
	news chan struct{}
}

// retire notes that a program is to be given back. The set that lacks it is
// published in the same pass.
func (l *Loader) retire(o *version) {
	l.retiring.mu.Lock()
	defer l.retiring.mu.Unlock()
	l.retiring.all = append(l.retiring.all, o)
}

// drainRetired has programs that left given back, now that their set is no longer
// live. Without a scheduler there are no cycles to wait for.
func (l *Loader) drainRetired() {
	if l.Present == nil {
		l.retiring.drain(l.retiring.count())
		return
	}
	if l.retiring.count() > 0 {
		signal(l.retiring.news)
	}
}

// drainLoop gives back what has left once no cycle can be asking it any more,
// until ctx ends. A cycle that begins takes the live set: whoever has left it,
// and sees the present between two cycles after that, is forgotten by all.
func (l *Loader) drainLoop(ctx context.Context) {
	for {
		select {
		case <-l.retiring.news:
		case <-ctx.Done():
			return
		}
		n := l.retiring.count()
		// An error means that nothing is scheduled; or that the host ends, which
		// is when Close gives back the rest.
		if _, err := l.Present(ctx); err != nil && ctx.Err() != nil {
			return
		}
		l.retiring.drain(n)
	}
}

func (d *retiring) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.all)
}

// drain gives back the first n.
func (d *retiring) drain(n int) {
	d.mu.Lock()
	leaving := d.all[:n:n]
	d.all = d.all[n:]
	d.mu.Unlock()
	for _, one := range leaving {
		one.end()
	}
}

// end gives back what the program holds in the set.
func (o *version) end() {
	o.main.Retire()
	if o.verifier != nil {
		o.verifier.Retire()
	}
	o.program.Leave()
}

// borrow holds a program, or one that is made anew as it was made if that has
// left and is given back.
func (l *Loader) borrow(ctx context.Context, p *sandbox.Program) (*sandbox.Program, error) {
	if p.Hold() {
		return p, nil
	}
	return l.remake(ctx, p.Name(), p.Identity())
}
