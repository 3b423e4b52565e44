package store

import "time"

// publish shows the batch, in the order that keeps readers from seeing a
// future and then the past: each resource's state with its events, then the
// revision, then the wakeups. The answers come last.
func (s *Store) publish(b *batch, now time.Time) {
	if len(b.changes) == 0 {
		return
	}
	events := map[*resource][]Event{}
	for i := range b.changes {
		c := &b.changes[i]
		r := s.resource(c.key.Resource)
		r.replace(c.prev, c.next)
		events[r] = append(events[r], c.event())
	}
	var wakes []chan struct{}
	for r, evs := range events {
		wakes = append(wakes, r.publish(evs[len(evs)-1].Revision, evs, now)...)
	}
	s.revision.Store(b.revision)
	s.wakes.add(wakes)
}

func (c *change) event() Event {
	ev := Event{Revision: c.rev, Key: c.key, prev: c.prev, state: c.next}
	switch {
	case c.prev == nil:
		ev.Type = Added
	case c.next == nil:
		ev.Type, ev.state = Deleted, c.last
	default:
		ev.Type = Modified
	}
	ev.Object = ev.state.obj
	if c.prev != nil {
		ev.Prev = c.prev.obj
	}
	return ev
}
