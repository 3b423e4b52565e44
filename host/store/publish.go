package store

import "time"

// publish shows the batch, in the order that keeps readers from seeing a
// future and then the past: each resource's state with its events, then the
// revision, then the wakeups. The answers come last.
func (s *Store) publish(b *batch, now time.Time) {
	if len(b.changes) == 0 {
		return
	}
	var changed []*resource
	for i := range b.changes {
		c := &b.changes[i]
		r := s.resource(c.key.Resource)
		r.replace(c.prev, c.next)
		if len(r.coming) == 0 {
			changed = append(changed, r)
		}
		r.coming = append(r.coming, c.event())
	}
	var wakes []wake
	for _, r := range changed {
		wakes = append(wakes, r.publish(r.coming[len(r.coming)-1].Revision, r.coming, now)...)
		r.come()
	}
	s.revision.Store(b.revision)
	s.wakes.add(wakes)
	for _, r := range changed {
		r.tidy(maxPending)
	}
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
	ev.Object = ev.state.object()
	if c.prev != nil {
		ev.Prev = c.prev.object()
	}
	return ev
}
