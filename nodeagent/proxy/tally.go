package proxy

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/nodeagent/forward"
)

// mostTold is how many Services have a series of their own on a machine: those that
// connections came to first. All others share one without a name.
const mostTold = 1000

// tally adds up what the kernel counts at fronts by the Services that have them.
// What the kernel counted before a front was somebody else's, or before the rules
// were made anew, stays counted.
type tally struct {
	mu     sync.Mutex
	owners map[forward.Front]types.NamespacedName
	last   map[forward.Front]uint64
	totals map[types.NamespacedName]uint64
}

func newTally() *tally {
	return &tally{owners: map[forward.Front]types.NamespacedName{}, last: map[forward.Front]uint64{}, totals: map[types.NamespacedName]uint64{}}
}

// own notes whose fronts are that changed; with complete, there are no others.
func (y *tally) own(c forward.Change, complete bool, owner func(forward.Front) types.NamespacedName) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if complete {
		clear(y.owners)
	}
	for front, e := range c.Fronts {
		if e == nil {
			delete(y.owners, front)
			delete(y.last, front)
			continue
		}
		y.owners[front] = owner(front)
	}
}

// add adds what the kernel has counted by now, and gives all totals.
func (y *tally) add(counted map[forward.Front]uint64) map[types.NamespacedName]uint64 {
	y.mu.Lock()
	defer y.mu.Unlock()
	for front, now := range counted {
		owner, owned := y.owners[front]
		if !owned {
			continue
		}
		more := now
		if last := y.last[front]; last <= now {
			more -= last
		}
		y.last[front] = now
		if more == 0 {
			continue
		}
		if _, told := y.totals[owner]; !told && len(y.totals) >= mostTold {
			owner = types.NamespacedName{}
		}
		y.totals[owner] += more
	}
	there := map[types.NamespacedName]bool{{}: true}
	for _, owner := range y.owners {
		there[owner] = true
	}
	out := map[types.NamespacedName]uint64{}
	for name, total := range y.totals {
		if !there[name] {
			delete(y.totals, name)
			continue
		}
		out[name] = total
	}
	return out
}
