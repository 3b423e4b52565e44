package policy

import (
	"context"
	"sync"

	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// How a program leaves. Who may still ask one that is in no set any more?
//
//	a cycle that took a previous set     its sandboxes stay until that cycle has ended
//	a replay, an explanation, a plan   holds the program, and opens its own sandboxes
//	a round of gates, a controller     is told ErrClosed, and turns to who came next

// drainQueue holds programs that have left the set while a cycle may still be
// asking them, in the order in which they left.
type drainQueue struct {
	mu   sync.Mutex
	all  []*version
	news chan struct{}
}

// retire notes that a program is to be given back. The set that lacks it is
// published in the same pass.
func (d *drainQueue) retire(o *version) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, o)
}

// published has programs that left given back, now that their set is no longer
// live. Without a scheduler there are no cycles to wait for.
func (d *drainQueue) published(cycles bool) {
	if !cycles {
		d.drain(d.count())
		return
	}
	if d.count() > 0 {
		signal(d.news)
	}
}

// run gives back what has left once no cycle can be asking it any more,
// until ctx ends. A cycle that begins takes the live set: whoever has left it,
// and sees the present between two cycles after that, is forgotten by all.
func (d *drainQueue) run(ctx context.Context, present func(context.Context) (snapshot.Log, error)) {
	for {
		select {
		case <-d.news:
		case <-ctx.Done():
			return
		}
		n := d.count()
		// An error means that nothing is scheduled; or that the host ends, which
		// is when Close gives back the rest.
		if _, err := present(ctx); err != nil && ctx.Err() != nil {
			return
		}
		d.drain(n)
	}
}

func (d *drainQueue) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.all)
}

// drain gives back the first n.
func (d *drainQueue) drain(n int) {
	d.mu.Lock()
	leaving := d.all[:n:n]
	d.all = d.all[n:]
	d.mu.Unlock()
	for _, one := range leaving {
		one.end()
	}
}
