package cycle

import (
	"iter"

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
	if most := framework.CycleFuel(int(d.run.rows()) + d.run.questions); all > most {
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

// rows is how many rows the cycle was about.
func (r *run) rows() int32 {
	if r.log == nil {
		return 0
	}
	return r.log.Slots()
}
