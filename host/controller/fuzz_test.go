package controller

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/store"
)

// FuzzChild has a guest want anything as a child, and tell anything as its
// parent's status: a child is always the parent's, in its namespace.
func FuzzChild(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"kube-system","ownerReferences":[{"uid":"x"}]}}`), []byte(`{"phase":"Running"}`))
	f.Add([]byte(`{"apiVersion":"v1","kind":"Secret"}`), []byte(`null`))
	f.Add([]byte(`null`), []byte(`[]`))
	parent := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "here", Name: "parent", UID: "u"}}
	pod := Type{Resource: "pods", New: func() store.Object { return &v1.Pod{} }}
	w := kindWatch{kind: Kind{APIVersion: "v1", Kind: "Pod", Writes: []string{"create"}}, Type: pod, child: true}
	p := &plan{d: &Driver{parent: w, children: []kindWatch{w}}, gathered: &gathered{parent: parent}}
	f.Fuzz(func(t *testing.T, child, status []byte) {
		if next, err := withStatus(parent, status); err == nil && next.GetUID() != "u" {
			t.Errorf("the parent becomes %v", next)
		}
		_, made, err := p.stamp(&abi.Creation{Object: child})
		if err != nil {
			return
		}
		owner := metav1.GetControllerOf(made)
		if made.GetNamespace() != "here" || len(made.GetOwnerReferences()) != 1 || owner == nil || owner.UID != "u" {
			t.Errorf("%q makes %s/%s of %v", child, made.GetNamespace(), made.GetName(), made.GetOwnerReferences())
		}
	})
}
