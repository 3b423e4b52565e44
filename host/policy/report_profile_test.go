package policy_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

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
	if live.Status != "True" || live.Message != "without to-come: not live" {
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
	if live := meta.FindStatusCondition(third.Status.Conditions, v1alpha1.ConditionLive); live.Message != "" || third.Status.Set != second.Status.Set {
		t.Errorf("status = %+v once the policy came, want it whole, and since set %d", third.Status, second.Status.Set)
	}
}
