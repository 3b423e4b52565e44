package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/store"
)

// maxMissing is how many policies a profile's status names that are not live.
const maxMissing = 10

// reportProfiles writes into the profiles' statuses that they decide.
func (r reporter) reportProfiles(ctx context.Context, set *Set) {
	for _, profile := range set.profiles {
		_, err := r.Objects.Update(ctx, store.Key{Resource: v1alpha1.Profiles, Name: profile.Name}, func(o store.Object) (store.Object, error) {
			object := o.(*v1alpha1.Profile)
			if object.UID != profile.UID {
				return o, nil
			}
			status := r.profileStatus(set, profile, &object.Status)
			if equality.Semantic.DeepEqual(status, object.Status) {
				return o, nil
			}
			object = object.DeepCopy()
			object.Status = status
			return object, nil
		})
		if err != nil && !errors.Is(err, store.ErrNotFound) && ctx.Err() == nil {
			r.Log.Warn("report profile", "profile", profile.Name, "err", err)
		}
	}
}

// profileStatus is that of a profile as the set holds it, given its former one.
// A set that other policies brought about is no news to it.
func (r reporter) profileStatus(set *Set, p *v1alpha1.Profile, was *v1alpha1.ProfileStatus) v1alpha1.ProfileStatus {
	s := v1alpha1.ProfileStatus{ObservedGeneration: p.Generation, Set: was.Set, Conditions: slices.Clone(was.Conditions)}
	if s.Set == 0 || was.ObservedGeneration != p.Generation {
		s.Set = set.Number
	}
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionLive, Status: metav1.ConditionTrue, Reason: v1alpha1.PhaseLive, Message: set.missing(p),
		ObservedGeneration: p.Generation, LastTransitionTime: metav1.NewTime(r.Now()).Rfc3339Copy(),
	})
	return s
}

// missing tells which policies a profile names that decide nothing, or refuse all.
func (s *Set) missing(p *v1alpha1.Profile) string {
	var none, lost, other []string
	for _, name := range p.Names() {
		switch l := s.policies[name]; {
		case l.lost():
			lost = append(lost, name)
		case l == nil || l.version == nil:
			none = append(none, name)
		case !s.fits(p, name, l.program.Kind()):
			other = append(other, name+", a "+l.program.Kind())
		}
	}
	var texts []string
	tell := func(list []string, before, after string) {
		if len(list) > 0 {
			texts = append(texts, before+some(list)+after)
		}
	}
	tell(none, "without ", ": not live")
	tell(lost, "all pods are refused by ", ": no revision can be loaded")
	tell(other, "in vain ", ": listed as what it is not")
	return strings.Join(texts, "; ")
}

// fits says whether a profile lists a policy as what it is.
func (s *Set) fits(p *v1alpha1.Profile, name, kind string) bool {
	isPriority := slices.ContainsFunc(p.Spec.Priorities, func(q v1alpha1.ProfilePriority) bool { return q.Name == name })
	isPredicate := slices.ContainsFunc(p.Spec.Predicates, func(q v1alpha1.ProfilePredicate) bool {
		members, isGroup := p.Group(q.Name)
		return q.Name == name && !isGroup || slices.Contains(members, name)
	})
	return (!isPriority || kind == abi.KindPriority) && (!isPredicate || kind == abi.KindPredicate)
}

func some(list []string) string {
	if n := len(list) - maxMissing; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:maxMissing], ", "), n)
	}
	return strings.Join(list, ", ")
}
