package store

import (
	"slices"
	"sort"
)

// topic is what a watch of a part of the resource follows: the places in the log whose
// events are about one value of an index, one namespace or one object. Its watchers
// sleep while others are busy, so five thousand nodes can each watch their own pods,
// and ten thousand watches of one tenant cost nothing where others write.
type topic struct {
	key      topicKey
	watchers int
	places   []place // ascending
	since    int64   // places after this revision are complete
	wake     wake    // when there are new places
}

type topicKey struct {
	index int // or one of those below
	value string
	name  string // with byName
}

// What topics are about besides the values of indexes.
const (
	byNamespace = -1
	byName      = -2
)

func namespaceTopic(namespace string) topicKey { return topicKey{byNamespace, namespace, ""} }
func objectTopic(k Key) topicKey               { return topicKey{byName, k.Namespace, k.Name} }

type place struct {
	rev int64
	pos uint64
}

// subscribe returns the topic, complete from rev on; nil when the log is not.
func (r *resource) subscribe(key topicKey, rev int64) *topic {
	l := r.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if rev < l.floor {
		return nil
	}
	t, ok := l.topics[key]
	if !ok {
		t = &topic{key: key, since: l.newest(), wake: newWake(0)}
		l.topics[key] = t
	}
	t.watchers++
	if rev < t.since {
		t.places = append(r.find(key, rev, t.since), t.places...)
		t.since = rev
	}
	return t
}

func (r *resource) unsubscribe(t *topic) {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	if t.watchers--; t.watchers == 0 {
		delete(r.log.topics, t.key)
	}
}

// find looks through the log for what is about the key in (from, to].
func (r *resource) find(key topicKey, from, to int64) (places []place) {
	l := r.log
	for pos := l.after(from); pos < l.next && l.at(pos).Revision <= to; pos++ {
		if r.concerns(key, &l.at(pos).Event) {
			places = append(places, place{l.at(pos).Revision, pos})
		}
	}
	return places
}

// concerns says whether an event is about the key.
func (r *resource) concerns(key topicKey, ev *Event) bool {
	switch key.index {
	case byNamespace:
		return ev.Key.Namespace == key.value
	case byName:
		return ev.Key.Namespace == key.value && ev.Key.Name == key.name
	}
	return slices.Contains(r.about(key.index, ev), key.value)
}

// about names the index's values of the event's object, before and after.
func (r *resource) about(index int, ev *Event) []string {
	values := r.indexes[index].fn(ev.Object)
	if ev.Prev == nil {
		return values
	}
	for _, v := range r.indexes[index].fn(ev.Prev) {
		if !slices.Contains(values, v) {
			values = append(values[:len(values):len(values)], v)
		}
	}
	return values
}

// note enters the events from position pos on into the topics that they are
// about, and returns what wakes the watchers of those. Called with mu held.
func (r *resource) note(pos uint64) (woken []wake) {
	l := r.log
	if len(l.topics) == 0 {
		return nil
	}
	enter := func(key topicKey, rev int64) {
		t, ok := l.topics[key]
		if !ok || t.has(pos) {
			return
		}
		t.add(place{rev, pos}, l.floor)
		woken = append(woken, t.wake)
		t.wake = newWake(t.watchers)
	}
	for ; pos < l.next; pos++ {
		ev := &l.at(pos).Event
		enter(namespaceTopic(ev.Key.Namespace), ev.Revision)
		enter(objectTopic(ev.Key), ev.Revision)
		for i := range r.indexes {
			for _, value := range r.about(i, ev) {
				enter(topicKey{i, value, ""}, ev.Revision)
			}
		}
	}
	return woken
}

// has reports that pos was the last to come: an index function may name a value
// twice.
func (t *topic) has(pos uint64) bool {
	return len(t.places) > 0 && t.places[len(t.places)-1].pos == pos
}

// add enters a place and forgets those that the log no longer has.
func (t *topic) add(p place, floor int64) {
	gone := sort.Search(len(t.places), func(i int) bool { return t.places[i].rev > floor })
	if gone > 0 {
		t.since = t.places[gone-1].rev
		t.places = slices.Delete(t.places, 0, gone)
	}
	t.places = append(t.places, p)
}

// readTopic is read for a watcher of a topic.
func (l *log) readTopic(t *topic, rev int64) (events []Event, seen int64, more wake, err error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	i := sort.Search(len(t.places), func(i int) bool { return t.places[i].rev > rev })
	if rev < t.since || i < len(t.places) && t.places[i].rev <= l.floor {
		return nil, rev, nil, ErrCompacted
	}
	seen = rev
	for _, p := range t.places[i:] {
		if len(events) == maxRead {
			return events, seen, t.wake, nil
		}
		seen = p.rev
		events = append(events, l.at(p.pos).Event)
	}
	// Nothing up to the log's end is about the topic.
	return events, max(seen, l.newest()), t.wake, nil
}

// pendingTopic is pending for a watcher of a topic.
func (l *log) pendingTopic(t *topic, rev int64) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return len(t.places) > 0 && t.places[len(t.places)-1].rev > rev
}
