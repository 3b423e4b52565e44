package policy_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/host/policy/builtin"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/store"
)

// of is a module for the built-in policy HostName, of somebody's.
func (r *rig) of(t *testing.T, version string) (module string) {
	t.Helper()
	return r.upload(t, guest{Name: "HostName", Version: version, Refuse: -1}.Bytes())
}

// older is a host whose HostName is as another Berth left it.
func (r *rig) older(t *testing.T) (again *rig, module string) {
	t.Helper()
	module = r.of(t, "1")
	_, err := r.store.Update(t.Context(), store.Key{Resource: v1alpha1.Modules, Name: module}, func(o store.Object) (store.Object, error) {
		m := o.(*v1alpha1.Module).DeepCopy()
		metav1.SetMetaDataLabel(&m.ObjectMeta, builtin.Label, "true")
		return m, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.store.Update(t.Context(), store.Key{Resource: v1alpha1.Policies, Name: "HostName"}, func(o store.Object) (store.Object, error) {
		p := o.(*v1alpha1.Policy).DeepCopy()
		p.Spec.Module, p.Status = module, v1alpha1.PolicyStatus{}
		return p, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return r.restarted(t), module
}

// What an operator made of a built-in policy stays when a host starts; what is as
// a Berth left it gets what this one carries.
func TestAStartLeavesWhatAnOperatorDecided(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		// pushed are the modules that follow: the older Berth's, an operator's, this Berth's,
		// or one that is not there.
		pushed []string
		want   string
	}{
		"what an operator pushed stays":                             {[]string{"own"}, "own"},
		"what is not there yet stays":                               {[]string{"absent"}, "absent"},
		"an older Berth's becomes this one's":                       {nil, "carried"},
		"an older Berth's that was gone back to becomes this one's": {[]string{"own", "older"}, "carried"},
		"an older Berth's stays that this one's was taken back for": {[]string{"carried", "older"}, "older"},
		"this one's stays after a step back and forth":              {[]string{"carried", "older", "carried"}, "carried"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			modules := map[string]string{"carried": r.policy(t, "HostName").Spec.Module, "own": r.of(t, "9"), "absent": v1alpha1.ModuleName("sha256:" + absent)}
			r, modules["older"] = r.older(t)
			for _, m := range tt.pushed {
				r.put(t, "HostName", withModule(modules[m]))
			}
			before := r.policy(t, "HostName").Spec
			if err := builtin.Install(t.Context(), r.Loader); err != nil {
				t.Fatal(err)
			}
			want := before.DeepCopy()
			want.Module = modules[tt.want]
			if diff := cmp.Diff(*want, r.policy(t, "HostName").Spec); diff != "" {
				t.Errorf("after a start the spec is another (-want +got):\n%s", diff)
			}
		})
	}
}

const absent = "00000000000000000000000000000000000000000000000000000000000000aa"

// A module that somebody had uploaded before a Berth carried it is a built-in one
// for those after it.
func TestAnUploadThatABerthCarriesIsABuiltInOne(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	key := store.Key{Resource: v1alpha1.Modules, Name: r.policy(t, "HostName").Spec.Module}
	_, err := r.store.Update(t.Context(), key, func(o store.Object) (store.Object, error) {
		m := o.(*v1alpha1.Module).DeepCopy()
		m.Labels = nil
		return m, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := builtin.Install(t.Context(), r.Loader); err != nil {
		t.Fatal(err)
	}
	if o, _ := r.store.Get(key); o.(*v1alpha1.Module).Labels[builtin.Label] == "" {
		t.Error("the module that this Berth carries is marked as nobody's")
	}
}
