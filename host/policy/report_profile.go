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

	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/store"
)

// mostMissing is how many policies a profile's status names that are not live.
const mostMissing = 10

// reportProfiles writes into the profiles' statuses that they decide.
func (l *Loader) reportProfiles(ctx context.Context) {
	set := l.Current()
	for _, profile := range set.profiles {
		_, err := l.Objects.Update(ctx, store.Key{Resource: Profiles, Name: profile.Name}, func(o store.Object) (store.Object, error) {
			object := o.(*v1alpha1.Profile)
			if object.UID != profile.UID {
				return o, nil
			}
			status := l.profileStatus(set, profile, &object.Status)
			if equality.Semantic.DeepEqual(status, object.Status) {
				return o, nil
			}
			object = object.DeepCopy()
			object.Status = status
			return object, nil
		})
		if err != nil && !errors.Is(err, store.ErrNotFound) && ctx.Err() == nil {
			l.Log.Warn("report profile", "profile", profile.Name, "err", err)
		}
	}
}

// profileStatus is that of a profile as the set holds it, given its former one.
// A set that other policies brought about is no news to it.
func (l *Loader) profileStatus(set *Set, p *v1alpha1.Profile, was *v1alpha1.ProfileStatus) v1alpha1.ProfileStatus {
	s := v1alpha1.ProfileStatus{ObservedGeneration: p.Generation, Set: was.Set, Conditions: slices.Clone(was.Conditions)}
	if s.Set == 0 || was.ObservedGeneration != p.Generation {
		s.Set = set.Number
	}
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{
		Type: ConditionLive, Status: metav1.ConditionTrue, Reason: PhaseLive, Message: set.missing(p),
		ObservedGeneration: p.Generation, LastTransitionTime: metav1.NewTime(l.Now()).Rfc3339Copy(),
	})
	return s
}

// missing tells which policies a profile names that decide nothing.
func (s *Set) missing(p *v1alpha1.Profile) string {
	var none []string
	for _, name := range names(p) {
		l := s.policies[name]
		if (l == nil || l.program == nil) && !slices.Contains(none, name) {
			none = append(none, name)
		}
	}
	switch n := len(none) - mostMissing; {
	case len(none) == 0:
		return ""
	case n > 0:
		return fmt.Sprintf("without %s and %d more, which are not live", strings.Join(none[:mostMissing], ", "), n)
	}
	return fmt.Sprintf("without %s: not live", strings.Join(none, ", "))
}
