package deployment

import (
	"sort"

	"github.com/berth-dev/berth/sdk/reconcile"
)

// roll moves replicas to the newest ReplicaSet step by step.
func (d *deployment) roll() {
	if !d.ensure() {
		return
	}
	switch {
	case d.scaleNewest():
		d.out.Step = true // the old ones come next
	case !d.shrinkOld() && d.complete(d.counts()):
		d.cleanUp()
	}
	d.writeStatus(true)
}

func (d *deployment) scaleNewest() bool {
	s := d.newest
	if s.replicas > d.replicas {
		return d.resize(s, d.replicas)
	}
	return d.resize(s, d.newReplicas(s))
}

// shrinkOld takes replicas from the old ReplicaSets: first those that are not
// available, then as many as availability lets go.
func (d *deployment) shrinkOld() bool {
	old := d.old()
	if sum(old) == 0 {
		return false
	}
	least := d.replicas - d.unavailable
	may := d.wanted() - least - (d.newest.replicas - d.newest.staying())
	if may <= 0 {
		return false
	}
	scaled := false
	for _, s := range old {
		if gone := min(may, s.replicas-s.available); gone > 0 {
			scaled = d.resize(s, s.replicas-gone) || scaled
			may -= gone
		}
	}
	spare := d.available() - least
	for _, s := range old {
		if spare <= 0 {
			break
		}
		gone := min(spare, s.replicas)
		spare -= gone
		scaled = d.resize(s, s.replicas-gone) || scaled
	}
	return scaled
}

func sum(sets []*set) (n int64) {
	for _, s := range sets {
		n += s.replicas
	}
	return n
}

// recreateAll ends all old pods before there are new ones.
func (d *deployment) recreateAll() {
	running := false
	for _, s := range d.old() {
		// A status from before it was scaled may not count pods that were just made.
		running = running || s.replicas > 0 || s.has > 0 || s.leaving > 0 || !s.observed
		if s.replicas > 0 {
			d.resize(s, 0)
		}
	}
	if running {
		d.keepNewest()
		d.writeStatus(true)
		return
	}
	if !d.ensure() {
		return
	}
	d.resize(d.newest, d.replicas)
	if d.complete(d.counts()) {
		d.cleanUp()
	}
	d.writeStatus(true)
}

// isScaling tells whether spec.replicas is another than the ReplicaSets were last
// scaled for.
func (d *deployment) isScaling() bool {
	for _, s := range d.sets {
		if s.replicas > 0 && s.annotation(desiredKey) != "" && s.number(desiredKey) != d.replicas {
			return true
		}
	}
	return false
}

// scale brings all to spec.replicas without going on with the roll-out: one
// ReplicaSet alone gets all, several get their share.
func (d *deployment) scale() {
	var active []*set
	for _, s := range d.sets {
		if s.replicas > 0 {
			active = append(active, s)
		}
	}
	if one := d.only(active); one != nil {
		d.resize(one, d.replicas)
		return
	}
	if len(active) == 0 {
		return
	}
	if n := d.newest; n != nil && n.replicas == d.replicas && n.number(desiredKey) == d.replicas && n.available == d.replicas {
		for _, s := range d.old() {
			if s.replicas > 0 {
				d.resize(s, 0)
			}
		}
		return
	}
	if !d.recreate {
		d.share(active)
	}
}

// only is the one ReplicaSet that has replicas, or the newest if none has.
func (d *deployment) only(active []*set) *set {
	switch {
	case len(active) == 1:
		return active[0]
	case len(active) > 1 || len(d.sets) == 0:
		return nil
	case d.newest != nil:
		return d.newest
	}
	return d.sets[len(d.sets)-1]
}

// share spreads what is added or taken over the ReplicaSets by their size.
func (d *deployment) share(active []*set) {
	allowed := int64(0)
	if d.replicas > 0 {
		allowed = d.replicas + d.surge
	}
	add := allowed - sum(active)
	sort.SliceStable(active, func(i, j int) bool {
		a, b := active[i], active[j]
		if a.replicas != b.replicas {
			return a.replicas > b.replicas
		}
		return (a.created > b.created) == (add > 0)
	})
	sizes, added := make([]int64, len(active)), int64(0)
	for i, s := range active {
		sizes[i] = s.replicas
		if add != added {
			n := d.fraction(s, allowed)
			if add > 0 {
				n = min(n, add-added)
			} else {
				n = max(n, add-added)
			}
			sizes[i] += n
			added += n
		}
	}
	for i, s := range active {
		if i == 0 && add != 0 {
			sizes[0] = max(sizes[0]+add-added, 0)
		}
		d.noteSizes(s)
		d.resize(s, sizes[i])
	}
}

// fraction is what the ReplicaSet's size changes by, when all change in
// proportion.
func (d *deployment) fraction(s *set, allowed int64) int64 {
	if d.replicas == 0 {
		return -s.replicas
	}
	before := s.number(maxKey)
	if before == 0 {
		if n, ok := d.status.Object("replicas").Number(); ok {
			before = int64(n)
		}
	}
	if before == 0 {
		return 0
	}
	return (2*s.replicas*allowed+before)/(2*before) - s.replicas
}

// cleanUp takes away old ReplicaSets without pods beyond the history that is kept.
func (d *deployment) cleanUp() {
	if d.history < 0 {
		return
	}
	var old []*set
	for _, s := range d.old() {
		if s.Deleted == 0 {
			old = append(old, s)
		}
	}
	beyond := int64(len(old)) - d.history
	if beyond <= 0 {
		return
	}
	sort.SliceStable(old, func(i, j int) bool { return old[i].revision < old[j].revision })
	for _, s := range old[:beyond] {
		if s.has == 0 && s.replicas == 0 && s.observed && !s.scaled {
			d.out.Delete = append(d.out.Delete, reconcile.Deletion{UID: s.UID, Quiet: true})
			s.annotate = nil
		}
	}
}
