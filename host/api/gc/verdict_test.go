package gc

import (
	"testing"

	"github.com/berth-dev/berth/host/store"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func object(deleted bool, finalizer string, owners ...types.UID) *corev1.ConfigMap {
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{UID: "self"}}
	if deleted {
		o.DeletionTimestamp = &metav1.Time{}
	}
	if finalizer != "" {
		o.Finalizers = []string{finalizer}
	}
	for _, uid := range owners {
		o.OwnerReferences = append(o.OwnerReferences, metav1.OwnerReference{UID: uid})
	}
	return o
}

func dependent(block bool) store.Object {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{UID: "self", BlockOwnerDeletion: ptr.To(block)}}}}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	owners := map[types.UID]Owner{"solid": Solid, "gone": Absent, "waiting": Waiting, "foreign": Foreign, "circular": Circular}
	background := Verdict{Action: Remove, Policy: metav1.DeletePropagationBackground}
	foreground := Verdict{Action: Remove, Policy: metav1.DeletePropagationForeground}
	for name, c := range map[string]struct {
		obj        store.Object
		dependents []store.Object
		want       Verdict
	}{
		"an object without owners stays":                         {object(false, ""), nil, Verdict{}},
		"an object whose owner is there stays":                   {object(false, "", "solid"), nil, Verdict{}},
		"an object whose only owner is gone goes":                {object(false, "", "gone"), nil, background},
		"an owner of a foreign kind holds its object":            {object(false, "", "foreign", "gone"), nil, Verdict{Action: Disown, Gone: []types.UID{"gone"}}},
		"one owner of two is gone: only the reference goes":      {object(false, "", "solid", "gone"), nil, Verdict{Action: Disown, Gone: []types.UID{"gone"}}},
		"a waiting owner beside a solid one is let go":           {object(false, "", "solid", "waiting"), nil, Verdict{Action: Disown, Gone: []types.UID{"waiting"}}},
		"an owner waits for an object with dependents":           {object(false, "", "waiting"), []store.Object{dependent(true)}, foreground},
		"an object of a circle of owners is not waited for":      {object(true, metav1.FinalizerDeleteDependents, "circular"), []store.Object{dependent(true)}, Verdict{Action: Unblock}},
		"what waits by itself alone is let wait":                 {object(true, metav1.FinalizerDeleteDependents, "waiting"), []store.Object{dependent(true)}, Verdict{Action: Spread}},
		"an owner waits for an object without dependents":        {object(false, "", "waiting"), nil, background},
		"a deleted object that nothing holds is left to itself":  {object(true, "", "gone"), nil, Verdict{}},
		"a deleted object orphans its dependents":                {object(true, metav1.FinalizerOrphanDependents), []store.Object{dependent(false)}, Verdict{Action: Orphan}},
		"a deleted object without dependents is free":            {object(true, metav1.FinalizerOrphanDependents), nil, Verdict{Action: Release}},
		"a deleted object waits for dependents that block":       {object(true, metav1.FinalizerDeleteDependents), []store.Object{dependent(true)}, Verdict{Action: Spread}},
		"a deleted object waits not for dependents that don't":   {object(true, metav1.FinalizerDeleteDependents), []store.Object{dependent(false)}, Verdict{Action: Release}},
		"an object that orphans goes by that when its owner did": {object(false, metav1.FinalizerOrphanDependents, "gone"), nil, Verdict{Action: Remove, Policy: metav1.DeletePropagationOrphan}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Judge(c.obj, func(ref metav1.OwnerReference) Owner { return owners[ref.UID] }, func() []store.Object { return c.dependents })
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("Judge (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDependentsOfWhatIsHeldAreNotLookedFor(t *testing.T) {
	t.Parallel()
	for _, owner := range []Owner{Solid, Foreign, Absent} {
		Judge(object(false, "", "owner"), func(metav1.OwnerReference) Owner { return owner }, func() []store.Object {
			t.Errorf("an object whose owner is %d has its dependents looked for", owner)
			return nil
		})
	}
}
