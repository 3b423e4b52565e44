package policy_test

import (
	"slices"
	"testing"
	"time"

	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/store"
)

// holds says whether a module's object and its bytes are there.
func (r *rig) holds(t *testing.T, name string) (object, bytes bool) {
	t.Helper()
	digest, err := v1alpha1.Digest(name)
	if err != nil {
		t.Fatal(err)
	}
	blobs, err := r.store.Blobs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, object = r.store.Get(store.Key{Resource: v1alpha1.Modules, Name: name})
	return object, slices.Contains(blobs, digest)
}

func TestModulesThatNobodyUsesAreCollected(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	made := func(version string) []byte { return guest{Name: "made", Version: version, Refuse: -1}.Bytes() }
	stored := func(version string) string { // bytes whose object never comes
		m, err := r.Modules.Examine(t.Context(), "ann", made(version), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Modules.Keep(t.Context(), m, made(version)); err != nil {
			t.Fatal(err)
		}
		return m.Name
	}
	live, former, idle := r.upload(t, made("live")), r.upload(t, made("previous")), r.upload(t, made("idle"))
	r.put(t, "made", withModule(former))
	r.put(t, "made", withModule(live))
	orphan := stored("orphan")
	named := stored("named") // by a Policy, though its object is gone
	r.put(t, "other", withModule(named))
	check := func(when string, want map[string][2]bool) {
		t.Helper()
		r.Collect(t.Context())
		for name, w := range want {
			if object, bytes := r.holds(t, name); object != w[0] || bytes != w[1] {
				t.Errorf("%s: of %s the object is there: %v, the bytes: %v; want %v", when, name, object, bytes, w)
			}
		}
	}
	both, alone, none := [2]bool{true, true}, [2]bool{false, true}, [2]bool{}
	check("at once", map[string][2]bool{live: both, former: both, idle: both, orphan: alone, named: alone})
	r.Modules.Now = func() time.Time { return time.Now().Add(30 * time.Minute) }
	again := r.upload(t, made("idle"))
	r.Modules.Now = func() time.Time { return time.Now().Add(time.Hour) }
	check("after an hour", map[string][2]bool{live: both, former: both, again: both, orphan: none, named: alone})
	r.Modules.Now = func() time.Time { return time.Now().Add(2 * time.Hour) }
	check("after two hours", map[string][2]bool{live: both, former: both, again: none, orphan: none, named: alone})
	r.put(t, "made", func(s *v1alpha1.PolicySpec) { s.Module = former })
	if got := r.policy(t, "made"); got.Status.Phase != v1alpha1.PhaseLive {
		t.Errorf("going back after the collection: %s: %s", got.Status.Phase, got.Status.Message)
	}
	if back := stored("orphan"); back != orphan {
		t.Fatalf("the same bytes are %s and %s", orphan, back)
	}
	check("uploaded again", map[string][2]bool{orphan: alone})
}
