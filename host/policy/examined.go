package policy

import (
	"slices"
	"sync"
	"time"

	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/store"
)

// How many modules stay loaded after they were examined, and how many bytes of
// memory they may take together.
const (
	mostExamined      = 16
	mostExaminedBytes = 48 << 20
)

// examined keeps the last modules loaded for a while, since a Policy will most
// likely name them next: a swap to one of them neither vets nor links it again.
type examined struct {
	mu    sync.Mutex
	all   []examination // oldest first
	bytes int64
}

type examination struct {
	*engine.Module
	at time.Time
}

// keep takes a module over, and lets go of the oldest where there are too many.
func (e *examined) keep(m *engine.Module, now time.Time) {
	e.drop(func(other examination) bool { return other.Digest() == m.Digest() })
	e.mu.Lock()
	e.all, e.bytes = append(e.all, examination{m, now}), e.bytes+m.Bytes()
	n, rest := 0, e.bytes
	for len(e.all)-n > mostExamined || rest > mostExaminedBytes {
		rest -= e.all[n].Bytes()
		n++
	}
	leaving := slices.Clone(e.all[:n])
	e.all, e.bytes = slices.Delete(e.all, 0, n), rest
	e.mu.Unlock()
	closeModules(leaving)
}

// drop lets go of those of which leaves holds.
func (e *examined) drop(leaves func(examination) bool) {
	e.mu.Lock()
	var leaving []examination
	e.all = slices.DeleteFunc(e.all, func(one examination) bool {
		if !leaves(one) {
			return false
		}
		leaving = append(leaving, one)
		e.bytes -= one.Bytes()
		return true
	})
	e.mu.Unlock()
	closeModules(leaving)
}

func closeModules(all []examination) {
	for _, one := range all {
		one.Close()
	}
}

// forget lets go of what came before that time.
func (e *examined) forget(before time.Time) {
	e.drop(func(one examination) bool { return one.at.Before(before) })
}

// clear lets go of all.
func (e *examined) clear() { e.drop(func(examination) bool { return true }) }

// gone lets go of modules that were deleted.
func (e *examined) gone(events []store.Event) {
	for _, ev := range events {
		if ev.Type == store.Deleted {
			e.drop(func(one examination) bool { return ModuleName(one.Digest()) == ev.Key.Name })
		}
	}
}
