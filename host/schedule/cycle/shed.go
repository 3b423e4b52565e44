package cycle

import (
	"iter"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/schedule/framework"
)

// shed ends a cycle by looking at what the profile's policies took together. Where
// that is more than a cycle may take, the one that took the most is told: if that
// happens again and again it is left out, then the next one. What they answered
// stands.
func (d *Decider) shed() {
	var all, top int64
	var heaviest framework.Metered
	for m := range d.run.metered() {
		burnt := m.Burnt()
		all += burnt
		if burnt > top {
			top, heaviest = burnt, m
		}
	}
	rows, told := d.run.size()
	if most := framework.CycleFuel(rows+d.run.questions, told); all > most {
		heaviest.Shed(top, all, most)
	}
}

// unmeter forgets what the policies took since the last cycle: explaining a pod asks
// them, too, and is no part of this one.
func (r *run) unmeter() {
	for m := range r.metered() {
		m.Burnt()
	}
}

func (r *run) metered() iter.Seq[framework.Metered] {
	return func(yield func(framework.Metered) bool) {
		for _, list := range [...][]session{r.predicates, r.priorities} {
			for i := range list {
				if m, ok := list[i].policy.(framework.Metered); ok && !yield(m) {
					return
				}
			}
		}
	}
}

// size is how many rows the cycle was about, and of how many pods and objects its
// policies may have been told.
func (r *run) size() (rows, told int) {
	if r.log == nil {
		return 0, 0
	}
	return int(r.log.Slots()), r.log.Pods() + r.log.ObjectsOf(^abi.Groups(0))
}
