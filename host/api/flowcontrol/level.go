package flowcontrol

import (
	"context"
	"sync"
	"time"
)

// level shares its seats between flows.
type level struct {
	name   string
	limits Limits

	mu       sync.Mutex
	taken    int
	waiting  int
	flows    map[string]*flow
	admitted uint64
	denied   uint64
}

// flow is one user's share: the seats that it holds, and those who wait for
// one. It is forgotten when it has neither.
type flow struct {
	taken int
	queue []*waiter
}

type waiter struct {
	width   int
	since   time.Time
	granted bool
	ready   chan struct{}
}

func newLevel(name string, limits Limits) *level {
	return &level{name: name, limits: limits, flows: map[string]*flow{}}
}

func (l *level) enter(ctx context.Context, name string, width int) error {
	if err := ctx.Err(); err != nil {
		return err // nobody waits for the answer any more
	}
	w, err := l.sit(name, width)
	if w == nil {
		return err
	}
	timer := time.NewTimer(l.limits.Wait)
	defer timer.Stop()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = tooMany(l.name)
	}
	if l.giveUp(name, w) {
		return err
	}
	// The seat came in the same moment.
	if ctx.Err() != nil {
		l.leave(name, width)
		return ctx.Err()
	}
	return nil
}

// sit takes a seat, or queues up for one (w is set), or refuses.
func (l *level) sit(name string, width int) (w *waiter, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.flows[name]
	if f == nil {
		f = &flow{}
		l.flows[name] = f
	}
	if l.waiting == 0 && l.taken+width <= l.limits.Seats {
		l.seat(f, width)
		return nil, nil
	}
	if len(f.queue) >= l.limits.FlowQueue || l.waiting >= l.limits.Queue {
		l.denied++
		l.forget(name, f)
		return nil, tooMany(l.name)
	}
	w = &waiter{width: width, since: time.Now(), ready: make(chan struct{})}
	f.queue = append(f.queue, w)
	l.waiting++
	return w, nil
}

func (l *level) seat(f *flow, width int) {
	l.taken += width
	f.taken += width
	l.admitted++
}

// giveUp takes the waiter out of its queue; false if it has its seat already.
func (l *level) giveUp(name string, w *waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.granted {
		return false
	}
	f := l.flows[name]
	for i, other := range f.queue {
		if other == w {
			f.queue = append(f.queue[:i], f.queue[i+1:]...)
			break
		}
	}
	l.waiting--
	l.denied++
	l.forget(name, f)
	// It may have been wide, and have kept others from free seats.
	l.dispatch()
	return true
}

func (l *level) leave(name string, width int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.flows[name]
	l.taken -= width
	f.taken -= width
	l.forget(name, f)
	l.dispatch()
}

func (l *level) forget(name string, f *flow) {
	if f.taken == 0 && len(f.queue) == 0 {
		delete(l.flows, name)
	}
}

// dispatch seats those who are next, as long as they fit. One who is wide waits
// for enough seats at once, and nobody passes it meanwhile.
func (l *level) dispatch() {
	for l.waiting > 0 {
		f := l.next()
		w := f.queue[0]
		if l.taken+w.width > l.limits.Seats {
			return
		}
		f.queue = f.queue[1:]
		l.waiting--
		w.granted = true
		l.seat(f, w.width)
		close(w.ready)
	}
}

// next is the flow that waits with the fewest seats, the longest.
func (l *level) next() *flow {
	var best *flow
	for _, f := range l.flows {
		if len(f.queue) == 0 {
			continue
		}
		if best == nil || f.taken < best.taken || f.taken == best.taken && f.queue[0].since.Before(best.queue[0].since) {
			best = f
		}
	}
	return best
}

func (l *level) state() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return State{
		Level: l.name, Seats: l.limits.Seats, Taken: l.taken, Waiting: l.waiting, Flows: len(l.flows),
		Admitted: l.admitted, Denied: l.denied,
	}
}
