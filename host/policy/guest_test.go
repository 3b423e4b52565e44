package policy_test

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-dev/berth/host/policy/policytest"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/store"
)

type guest = policytest.Guest

// upload puts a module into the store and returns its name.
func (r *rig) upload(t testing.TB, wasm []byte) string {
	t.Helper()
	m, err := r.Modules.Examine(t.Context(), "ann", wasm, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Modules.Keep(t.Context(), m, wasm); err != nil {
		t.Fatal(err)
	}
	key := store.Key{Resource: v1alpha1.Modules, Name: m.Name}
	if _, ok := r.store.Get(key); !ok {
		if _, _, err := r.store.Commit(t.Context(), store.Op{Kind: store.Create, Key: key, Object: m}); err != nil {
			t.Fatal(err)
		}
	}
	return m.Name
}

// put makes a Policy or changes it, and loads.
func (r *rig) put(t testing.TB, name string, change func(*v1alpha1.PolicySpec)) *v1alpha1.Policy {
	t.Helper()
	r.write(t, name, change)
	r.Load(t.Context())
	return r.policy(t, name)
}

func (r *rig) write(t testing.TB, name string, change func(*v1alpha1.PolicySpec)) {
	t.Helper()
	key := store.Key{Resource: v1alpha1.Policies, Name: name}
	op := store.Op{Kind: store.Update, Key: key}
	p := &v1alpha1.Policy{}
	if o, ok := r.store.Get(key); ok {
		p = o.(*v1alpha1.Policy).DeepCopy()
	} else {
		op.Kind = store.Create
		p.Name, p.UID = name, "uid-of-policy"
		p.Spec.ServiceAccount = &v1alpha1.ServiceAccountReference{Namespace: "default", Name: "tests"} // of controllers
	}
	change(&p.Spec)
	p.Generation++
	op.Object = p
	if _, _, err := r.store.Commit(t.Context(), op); err != nil {
		t.Fatal(err)
	}
}

// join puts a policy into the default profile.
func (r *rig) join(t testing.TB, name, kind string) {
	t.Helper()
	_, err := r.store.Update(t.Context(), store.Key{Resource: v1alpha1.Profiles, Name: "default"}, func(o store.Object) (store.Object, error) {
		p := o.(*v1alpha1.Profile).DeepCopy()
		if kind == "priority" {
			p.Spec.Priorities = append(p.Spec.Priorities, v1alpha1.ProfilePriority{Name: name, Weight: 100})
		} else {
			p.Spec.Predicates = append(p.Spec.Predicates, v1alpha1.ProfilePredicate{Name: name})
		}
		return p, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Load(t.Context())
}

func withModule(name string) func(*v1alpha1.PolicySpec) {
	return func(s *v1alpha1.PolicySpec) { s.Module = name }
}

func withConfig(name, config string) func(*v1alpha1.PolicySpec) {
	return func(s *v1alpha1.PolicySpec) {
		s.Module, s.Config = name, &runtime.RawExtension{Raw: json.RawMessage(config)}
	}
}
