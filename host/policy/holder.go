package policy

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

// holders are the profiles that decide for the names of schedulers. A name has
// one: who held it before keeps it, then comes the one that was not waiting for
// it, as the statuses tell after a start, then the oldest.
func holders(profiles []*v1alpha1.Profile, before map[string]*v1alpha1.Profile) map[string]*v1alpha1.Profile {
	held := map[string]*v1alpha1.Profile{}
	for _, p := range slices.SortedFunc(slices.Values(profiles), byClaim) {
		for _, name := range p.Schedulers() {
			if was := before[name]; held[name] == nil || was != nil && was.Name == p.Name && was.UID == p.UID {
				held[name] = p
			}
		}
	}
	return held
}

func byClaim(a, b *v1alpha1.Profile) int {
	return cmp.Or(
		cmp.Compare(waited(a), waited(b)),
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(a.Name, b.Name),
	)
}

// waited is 1 for a profile that waits for a name.
func waited(p *v1alpha1.Profile) int {
	if live := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionLive); live != nil && live.Reason == v1alpha1.ReasonNameTaken {
		return 1
	}
	return 0
}
