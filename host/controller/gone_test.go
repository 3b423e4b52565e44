package controller

import (
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/store"
)

func TestParentsThatAreGone(t *testing.T) {
	t.Parallel()
	const mark = "x/mark"
	g := &guest{gone: true}
	g.decide = func(parent *Object, children []Object) (*abi.ReconcileResult, error) {
		out := &abi.ReconcileResult{}
		if parent.Object.GetResourceVersion() != "" {
			return out, nil
		}
		if parent.Object.GetDeletionTimestamp() == nil {
			t.Error("a parent that is gone is not being deleted")
		}
		out.Status, out.Create = json.RawMessage(`{"replicas":1}`), []abi.Creation{{Count: 1, Object: json.RawMessage(`{"apiVersion":"v1","kind":"Pod"}`)}}
		for _, c := range children {
			out.Patch = append(out.Patch, abi.Patch{UID: string(c.Object.GetUID()), Patch: json.RawMessage(`{"metadata":{"finalizers":null}}`)})
		}
		return out, nil
	}
	marked := func(name string, owner *appsv1.ReplicaSet) *v1.Pod {
		p := pod(name, "web")
		p.Finalizers = []string{mark}
		if owner != nil {
			p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
		}
		return p
	}
	web, before := set("web", 1), set("web", 1)
	before.UID = "uid-before"
	drive(t, g, func(c *cluster) {
		c.put("replicasets.apps", web)
		c.put("pods", marked("there-before", before))
		c.put("pods", marked("orphan", nil))
		c.put("pods", marked("own", web))
	}, func(c *cluster) {
		want := func(want ...string) {
			t.Helper()
			list, err := c.store.List("pods", "", store.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, o := range list.Items {
				if len(o.GetFinalizers()) > 0 {
					got = append(got, o.GetName())
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("marked (-want +got):\n%s", diff)
			}
		}
		want("orphan", "own")
		c.put("pods", marked("of-before", before))
		time.Sleep(time.Second)
		synctest.Wait()
		want("orphan", "own")
		elsewhere, misnamed := marked("elsewhere", web), marked("misnamed", web)
		elsewhere.Namespace, misnamed.OwnerReferences[0].Name = "other", "other"
		c.put("pods", elsewhere)
		c.put("pods", misnamed)
		time.Sleep(time.Second)
		synctest.Wait()
		want("orphan", "own")
		have, _ := c.store.Get(keyOf("replicasets.apps", web))
		if _, _, err := c.store.Commit(c.t.Context(), store.Op{Kind: store.Delete, Key: keyOf("replicasets.apps", web), Object: have}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		want()
		if len(c.pods()) != 6 {
			t.Errorf("pods %q, want those six", c.pods())
		}
	})
}

func TestTheChildrenOfAParentThatIsGoneAreLetGoByAndBy(t *testing.T) {
	t.Parallel()
	g := &guest{gone: true}
	g.decide = func(_ *Object, children []Object) (*abi.ReconcileResult, error) {
		out := &abi.ReconcileResult{}
		for _, c := range children {
			if len(c.Object.GetFinalizers()) == 0 {
				continue
			}
			if out.Step = len(out.Patch) == 2; out.Step {
				break
			}
			out.Patch = append(out.Patch, abi.Patch{UID: string(c.Object.GetUID()), Patch: json.RawMessage(`{"metadata":{"finalizers":null}}`)})
		}
		return out, nil
	}
	drive(t, g, func(c *cluster) {
		c.after = synctest.Wait // the driver sees what it wrote before it knows that it did
		for i := range 5 {
			p := owned(fmt.Sprint("pod-", i), "web")
			p.SetFinalizers([]string{"x/mark"})
			c.put("pods", p)
		}
	}, func(c *cluster) {
		list, err := c.store.List("pods", "", store.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range list.Items {
			if len(o.GetFinalizers()) > 0 {
				t.Errorf("%s still has its finalizer", o.GetName())
			}
		}
	})
}
