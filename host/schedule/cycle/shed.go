package cycle

import "github.com/berth-dev/berth/host/schedule/framework"

// shed ends a cycle by looking at what the profile's policies took together. Where
// that is more than a cycle may take, the one that took the most is told: if that
// happens again and again it is left out, then the next one. What they answered
// stands.
func (d *Decider) shed() {
	var all, top int64
	var heaviest framework.Metered
	count := func(policy framework.Policy) {
		m, ok := policy.(framework.Metered)
		if !ok {
			return
		}
		burnt := m.Burnt()
		all += burnt
		if burnt > top {
			top, heaviest = burnt, m
		}
	}
	for i := range d.run.predicates {
		count(d.run.predicates[i].policy)
	}
	for i := range d.run.priorities {
		count(d.run.priorities[i].policy)
	}
	if most := framework.CycleFuel(int(d.run.rows())); all > most {
		heaviest.Shed(top, all, most)
	}
}

// rows is how many rows the cycle was about.
func (r *run) rows() int32 {
	if r.log == nil {
		return 0
	}
	return r.log.Slots()
}
