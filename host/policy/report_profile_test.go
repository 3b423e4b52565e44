package policy_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/store"
)

// Who changed a profile wants to know when it decides: `kubectl wait` does,
// by the condition and its generation.
func TestAProfileSaysWhenItIsLive(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	profile := func() *v1alpha1.Profile {
		t.Helper()
		o, ok := r.store.Get(store.Key{Resource: v1alpha1.Profiles, Name: "default"})
		if !ok {
			t.Fatal("there is no profile")
		}
		return o.(*v1alpha1.Profile)
	}
	change := func(do func(*v1alpha1.Profile)) {
		t.Helper()
		_, err := r.store.Update(t.Context(), store.Key{Resource: v1alpha1.Profiles, Name: "default"}, func(o store.Object) (store.Object, error) {
			p := o.DeepCopyObject().(*v1alpha1.Profile)
			do(p)
			return p, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	first := profile()
	if s := first.Status; s.Set == 0 || !meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionLive) {
		t.Fatalf("status = %+v, want it live", s)
	}
	change(func(p *v1alpha1.Profile) {
		p.Generation++
		p.Spec.Predicates = append(p.Spec.Predicates, v1alpha1.ProfilePredicate{Name: "to-come"})
	})
	if s := profile().Status; s.ObservedGeneration == profile().Generation {
		t.Errorf("status = %+v before the change is taken up", s)
	}
	r.Load(t.Context())
	second := profile()
	live := meta.FindStatusCondition(second.Status.Conditions, v1alpha1.ConditionLive)
	if s := second.Status; s.ObservedGeneration != second.Generation || live.ObservedGeneration != second.Generation || s.Set <= first.Status.Set || s.Set != r.Current().Number {
		t.Errorf("status = %+v, want generation %d live by set %d", s, second.Generation, r.Current().Number)
	}
	if live.Status != "False" || live.Reason != v1alpha1.ReasonNotFound || live.Message != "no policy is called to-come: all pods are refused" {
		t.Errorf("condition = %+v, want it to name what is missing", live)
	}
	// Its own status is no news, nor are labels.
	number := r.Current().Number
	change(func(p *v1alpha1.Profile) { p.Labels = map[string]string{"a": "b"} })
	r.Load(t.Context())
	if r.Current().Number != number {
		t.Errorf("set %d came of a label, after %d", r.Current().Number, number)
	}
	r.put(t, "to-come", withModule(r.upload(t, guest{Name: "to-come", Refuse: -1}.Bytes())))
	third := profile()
	if live := meta.FindStatusCondition(third.Status.Conditions, v1alpha1.ConditionLive); live.Message != "" || live.Status != "True" || third.Status.Set != second.Status.Set {
		t.Errorf("status = %+v once the policy came, want it whole, and since set %d", third.Status, second.Status.Set)
	}
}

// A typo must not let in what the policy that was meant keeps out.
func TestAProfileThatNamesNoPolicyRefusesAll(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name          string
		policy, kind  string
		says, because string
		refused       int
	}{
		{"a predicate", "PodFitsResurces", "predicate", "no policy is called PodFitsResurces: all pods are refused", v1alpha1.ReasonNotFound, 3},
		{"a priority: nothing is let in by it", "LeastRequested", "priority", "no policy is called LeastRequested", v1alpha1.ReasonNotFound, 0},
		{"a priority among the predicates", "LeastRequestedPriority", "predicate", "in vain LeastRequestedPriority, a priority: listed as what it is not", v1alpha1.ReasonOtherKind, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.withNodes(2)
			r.join(t, c.policy, c.kind)
			for _, when := range []string{"at once", "after a restart"} {
				live := r.live(t, "default")
				if live.Status != metav1.ConditionFalse || live.Reason != c.because || live.Message != c.says {
					t.Errorf("%s the profile is %s, %s: %q, want False, %s: %q", when, live.Status, live.Reason, live.Message, c.because, c.says)
				}
				if refused := r.placed(t, 0, 3); refused != c.refused {
					t.Errorf("%s %d of 3 pods were refused, want %d", when, refused, c.refused)
				}
				r = r.restarted(t)
			}
		})
	}
}

// What keeps out by a group that nobody asks keeps nothing out.
func TestAProfileSaysWhichGroupsNobodyNames(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	change := func(do func(*v1alpha1.Profile)) *metav1.Condition {
		t.Helper()
		_, err := r.store.Update(t.Context(), store.Key{Resource: v1alpha1.Profiles, Name: "default"}, func(o store.Object) (store.Object, error) {
			p := o.DeepCopyObject().(*v1alpha1.Profile)
			do(p)
			p.Generation++
			return p, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		r.Load(t.Context())
		return r.live(t, "default")
	}
	live := change(func(p *v1alpha1.Profile) {
		p.Spec.Groups = append(p.Spec.Groups, v1alpha1.PredicateGroup{Name: "Mine", Members: []string{"HostName"}})
	})
	if live.Status != metav1.ConditionFalse || live.Reason != v1alpha1.ReasonIdleGroup || live.Message != "in vain the groups Mine: no predicate has their names" {
		t.Errorf("with a group that nobody names: %+v", live)
	}
	live = change(func(p *v1alpha1.Profile) {
		p.Spec.Predicates = append(p.Spec.Predicates, v1alpha1.ProfilePredicate{Name: "Mine"})
	})
	if live.Status != metav1.ConditionTrue {
		t.Errorf("once it is named: %+v", live)
	}
}

// TestAPriorityWithoutWeightCountsOnce: as a score plugin of Kubernetes does.
func TestAPriorityWithoutWeightCountsOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.put(t, "mine", withModule(r.upload(t, guest{Name: "mine", Kind: "priority"}.Bytes())))
	_, err := r.store.Update(t.Context(), store.Key{Resource: v1alpha1.Profiles, Name: "default"}, func(o store.Object) (store.Object, error) {
		p := o.DeepCopyObject().(*v1alpha1.Profile)
		p.Spec.Priorities = append(p.Spec.Priorities, v1alpha1.ProfilePriority{Name: "mine"})
		return p, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Load(t.Context())
	all := r.Current().Scheduling.Profiles["default-scheduler"].Priorities
	if last := all[len(all)-1]; last.Policy.Info().Name != "mine" || last.Weight != 1 {
		t.Errorf("the last of the priorities is %s with weight %d, want mine with 1", last.Policy.Info().Name, last.Weight)
	}
}

// live is the condition of a profile.
func (r *rig) live(t testing.TB, profile string) *metav1.Condition {
	t.Helper()
	o, ok := r.store.Get(store.Key{Resource: v1alpha1.Profiles, Name: profile})
	if !ok {
		t.Fatalf("there is no profile %s", profile)
	}
	return meta.FindStatusCondition(o.(*v1alpha1.Profile).Status.Conditions, v1alpha1.ConditionLive)
}

// putProfile creates a profile for schedulers, or changes for which.
func (r *rig) putProfile(t testing.TB, name string, created time.Time, schedulers ...string) {
	t.Helper()
	key := store.Key{Resource: v1alpha1.Profiles, Name: name}
	o, there := r.store.Get(key)
	p := &v1alpha1.Profile{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(created)}}
	op := store.Op{Kind: store.Create, Key: key, Object: p}
	if there {
		p = o.(*v1alpha1.Profile).DeepCopy()
		op = store.Op{Kind: store.Update, Key: key, Object: p}
	}
	p.Generation++
	p.Spec.SchedulerNames = schedulers
	if _, _, err := r.store.Commit(t.Context(), op); err != nil {
		t.Fatal(err)
	}
	r.Load(t.Context())
}

func TestASchedulerNameIsThatOfOneProfile(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	now := time.Now()
	decides := func(scheduler, want string) {
		t.Helper()
		if p := r.Scheduling().Profiles[scheduler]; p == nil && want != "" || p != nil && p.Name != want {
			t.Errorf("for %s decides %+v, want %q", scheduler, p, want)
		}
	}
	says := func(profile string, status metav1.ConditionStatus, message string) {
		t.Helper()
		if live := r.live(t, profile); live.Status != status || live.Message != message {
			t.Errorf("profile %s is %s: %q, want %s: %q", profile, live.Status, live.Message, status, message)
		}
	}
	check := func() {
		t.Helper()
		decides("default-scheduler", "default")
		decides("batch", "another")
		says("another", metav1.ConditionFalse, "another profile decides for default-scheduler (default)")
		says("default", metav1.ConditionTrue, "")
	}
	r.putProfile(t, "another", now.Add(-time.Hour), "default-scheduler", "batch") // older, and by name the first
	check()
	r = r.restarted(t)
	check()
	r.putProfile(t, "default", now, "batch2")
	decides("default-scheduler", "another")
	says("another", metav1.ConditionTrue, "")
	r.putProfile(t, "default", now, "batch2", "default-scheduler")
	decides("default-scheduler", "another")
	decides("batch2", "default")
	says("default", metav1.ConditionFalse, "another profile decides for default-scheduler (another)")
}
