package gate

import (
	"time"

	"github.com/berth-dev/berth/abi"
)

const (
	// maxLooking is how many network attempts a checker has under way.
	maxLooking = 64
	// lateAfter is how long a look takes that is late: the next one at that pod
	// waits behind those at others, and may not take the last places.
	lateAfter = 500 * time.Millisecond
	// gathering is how long what was seen waits to be judged together with what
	// is being looked at.
	gathering = 100 * time.Millisecond
	// breath is how far apart calls about less than a full batch are: who is
	// idle is asked at once, who is busy about several pods together.
	breath = 20 * time.Millisecond
)

// pool is where one checker's gates are worked on: several are looked at at
// once, and what was seen is judged by the batch, one batch at a time. So an
// endpoint that does not answer takes a place, and holds up nobody.
type pool struct {
	checker Checker
	wants   []abi.Observe
	// looking is how many pods are looked at; late are those of them whose last
	// look was late.
	looking, late int
	// ready are those to be judged, since then.
	ready   []item
	since   time.Time
	judging bool
	// last is when the last batch was begun.
	last time.Time
}

// newPool makes a checker's pool; where nobody can look, there is nothing to see.
func newPool(checker Checker, sees bool) *pool {
	at := &pool{checker: checker}
	if sees {
		at.wants = checker.Observes()
	}
	return at
}

// places is how many pods are looked at at once: a pod has as many attempts
// under way as things are wanted of it.
func (at *pool) places() int { return max(maxLooking/max(len(at.wants), 1), 1) }

// room says whether the pool takes one more.
func (at *pool) room(late bool) bool {
	switch {
	case len(at.ready) >= maxBatch:
		return false
	case len(at.wants) == 0:
		return true
	case late && at.late >= max(at.places()*3/4, 1):
		return false
	}
	return at.looking < at.places()
}

func (at *pool) take(late bool) {
	at.looking++
	if late {
		at.late++
	}
}

func (at *pool) leave(late bool) {
	at.looking--
	if late {
		at.late--
	}
}

func (at *pool) keep(s item, now time.Time) {
	if len(at.ready) == 0 {
		at.since = now
	}
	at.ready = append(at.ready, s)
}

// ripens is when to judge what the pool has: a full batch now, and less when
// others would not join soon.
func (at *pool) ripens() (when time.Time, waits bool) {
	if at.judging || len(at.ready) == 0 {
		return when, false
	}
	when = at.since
	if len(at.ready) >= maxBatch {
		return when, true
	}
	if at.looking > at.late {
		when = when.Add(gathering)
	}
	if next := at.last.Add(breath); when.Before(next) {
		when = next
	}
	return when, true
}

// gather takes a batch off the pool.
func (at *pool) gather(now time.Time) []item {
	n := min(len(at.ready), maxBatch)
	taken := at.ready[:n:n]
	at.ready = append([]item(nil), at.ready[n:]...)
	at.judging, at.last = true, now
	return taken
}

// over says whether nothing is left of a pool that another began.
func (at *pool) over(now time.Time) bool {
	return at.looking == 0 && len(at.ready) == 0 && !at.judging && !now.Before(at.last.Add(breath))
}

// look is a look at a subject; was says whether it was expected to be late.
type look struct {
	at  *pool
	was bool
	item
}

// lanes are gates that wait for a place: those whose last look was late wait
// apart.
type lanes struct{ quick, late line }

func (l *lanes) add(k key, late bool) {
	if late {
		l.late.add(k)
		return
	}
	l.quick.add(k)
}

// next takes the next gate for which the pool has room; nobody's pool takes all.
func (l *lanes) next(at *pool) (k key, late, ok bool) {
	if at == nil || at.room(false) {
		if k, ok = l.quick.take(); ok {
			return k, false, true
		}
	}
	if at == nil || at.room(true) {
		k, ok = l.late.take()
	}
	return k, true, ok
}

func (l *lanes) empty() bool { return l.quick.len() == 0 && l.late.len() == 0 }

// line is first come, first served.
type line struct {
	keys []key
	from int
}

func (l *line) len() int { return len(l.keys) - l.from }

func (l *line) add(k key) {
	if l.from > len(l.keys)/2 {
		l.keys, l.from = append(l.keys[:0], l.keys[l.from:]...), 0
	}
	l.keys = append(l.keys, k)
}

func (l *line) take() (k key, ok bool) {
	if l.len() == 0 {
		return k, false
	}
	l.from++
	return l.keys[l.from-1], true
}
