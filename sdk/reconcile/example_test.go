package reconcile_test

import (
	"fmt"

	"github.com/berth-dev/berth/sdk/reconcile"
)

// one keeps one pod of each parent, and lets go of those beyond it.
type one struct{}

func (one) Reconcile(r *reconcile.Request) (out reconcile.Result, err error) {
	pods := r.ChildrenOf("Pod")
	if len(pods) == 0 {
		out.Create = []reconcile.Creation{{From: "spec.template", Object: `{"apiVersion":"v1","kind":"Pod"}`, Count: 1}}
		return out, nil
	}
	for _, pod := range pods[1:] {
		out.Delete = append(out.Delete, reconcile.Deletion{UID: pod.UID})
	}
	return out, nil
}

// An answer is what is wanted done; the host checks it, and does all of it or nothing.
func ExampleReconciler() {
	var controller reconcile.Reconciler = one{}
	out, err := controller.Reconcile(&reconcile.Request{Children: []*reconcile.Object{{Kind: "Pod", UID: "a"}, {Kind: "Pod", UID: "b"}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(out.JSON()))
	// Output: {"delete":[{"uid":"b"}]}
}
