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

// reportProfiles writes into the profiles' statuses that they decide, and tells
// whether these hold now.
func (r reporter) reportProfiles(ctx context.Context, set *Set) (told bool) {
	told = true
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
			told = false
		}
	}
	return told
}

// profileStatus is that of a profile as the set holds it, given its previous one.
// A set that other policies brought about is no news to it.
func (r reporter) profileStatus(set *Set, p *v1alpha1.Profile, was *v1alpha1.ProfileStatus) v1alpha1.ProfileStatus {
	s := v1alpha1.ProfileStatus{ObservedGeneration: p.Generation, Set: was.Set, Conditions: slices.Clone(was.Conditions)}
	if s.Set == 0 || was.ObservedGeneration != p.Generation {
		s.Set = set.Number
	}
	live := metav1.Condition{
		Type: v1alpha1.ConditionLive, Status: metav1.ConditionTrue, Reason: v1alpha1.PhaseLive,
		ObservedGeneration: p.Generation, LastTransitionTime: metav1.NewTime(r.Now()).Rfc3339Copy(),
	}
	if reason, message := set.lacks(p); reason != "" {
		live.Status, live.Reason, live.Message = metav1.ConditionFalse, reason, message
	}
	meta.SetStatusCondition(&s.Conditions, live)
	return s
}

// lacks tells what a profile asks for that does not hold: the first reason, and
// all of it in words. Empty is none.
func (s *Set) lacks(p *v1alpha1.Profile) (reason, message string) {
	var unknown, none, lost, other, texts []string
	for _, name := range p.Names() {
		switch l := s.policies[name]; {
		case l == nil && !s.coming[name]:
			unknown = append(unknown, name)
		case l.lost():
			lost = append(lost, name)
		case l == nil || l.version == nil:
			none = append(none, name)
		case !s.fits(p, name, l.program.Kind()):
			other = append(other, name+", a "+l.program.Kind())
		}
	}
	tell := func(why string, list []string, before, after string) {
		if len(list) == 0 {
			return
		}
		texts = append(texts, before+some(list)+after)
		if reason == "" {
			reason = why
		}
	}
	tell(v1alpha1.ReasonNameTaken, s.taken(p), "another profile decides for ", "")
	tell(v1alpha1.ReasonNotFound, unknown, "no policy is called ", refusing(p, unknown))
	tell(v1alpha1.ReasonLost, lost, "all pods are refused by ", ": no revision can be loaded")
	tell(v1alpha1.ReasonOtherKind, other, "in vain ", ": listed as what it is not")
	tell(v1alpha1.ReasonIdleGroup, idleGroups(p), "in vain the groups ", ": no predicate has their names")
	tell(v1alpha1.ReasonNotLive, none, "without ", ": not live")
	return reason, strings.Join(texts, "; ")
}

// idleGroups are the groups that none of the predicates names.
func idleGroups(p *v1alpha1.Profile) (all []string) {
	for i := range p.Spec.Groups {
		name := p.Spec.Groups[i].Name
		if !slices.ContainsFunc(p.Spec.Predicates, func(q v1alpha1.ProfilePredicate) bool { return q.Name == name }) {
			all = append(all, name)
		}
	}
	return all
}

// taken are the names that a profile claims and others hold, each with its holder.
func (s *Set) taken(p *v1alpha1.Profile) []string {
	var all []string
	for _, name := range p.Schedulers() {
		if holder := s.holders[name]; holder.Name != p.Name {
			all = append(all, name+" ("+holder.Name+")")
		}
	}
	return all
}

// refusing tells of names that stand among the predicates.
func refusing(p *v1alpha1.Profile, names []string) string {
	if slices.ContainsFunc(names, p.Asks) {
		return ": all pods are refused"
	}
	return ""
}

// fits says whether a profile lists a policy as what it is.
func (s *Set) fits(p *v1alpha1.Profile, name, kind string) bool {
	isPriority := slices.ContainsFunc(p.Spec.Priorities, func(q v1alpha1.ProfilePriority) bool { return q.Name == name })
	return (!isPriority || kind == abi.KindPriority) && (!p.Asks(name) || kind == abi.KindPredicate)
}

func some(list []string) string {
	if n := len(list) - maxMissing; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:maxMissing], ", "), n)
	}
	return strings.Join(list, ", ")
}
