package controller

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/store"
)

// Whose guest counts a thousand children is not asked for each that changes, and
// knows them all soon after the last has; what becomes of the parent is told at once.
func TestAParentOfManyIsAskedAboutManyChangesAtATime(t *testing.T) {
	t.Parallel()
	const children, takes = 1000, 10 * time.Millisecond
	var asked, running, replicas atomic.Int32
	g := &guest{decide: func(parent *Object, children []Object) (*abi.ReconcileResult, error) {
		time.Sleep(takes)
		asked.Add(1)
		n := int32(0)
		for i := range children {
			if children[i].Object.(*v1.Pod).Status.Phase == v1.PodRunning {
				n++
			}
		}
		running.Store(n)
		replicas.Store(*parent.Object.(*appsv1.ReplicaSet).Spec.Replicas)
		return &abi.ReconcileResult{}, nil
	}}
	var took time.Duration
	drive(t, g, func(c *cluster) {
		c.put("replicasets.apps", set("web", 1))
		for i := range children {
			p := pod(fmt.Sprintf("p%d", i), "web")
			p.OwnerReferences = append(p.OwnerReferences, *metav1.NewControllerRef(set("web", 1), appsv1.SchemeGroupVersion.WithKind("ReplicaSet")))
			c.put("pods", p)
		}
	}, func(c *cluster) {
		asked.Store(0)
		for i := range children {
			c.update("pods", fmt.Sprintf("p%d", i), func(o store.Object) { o.(*v1.Pod).Status.Phase = v1.PodRunning })
			time.Sleep(time.Millisecond)
			if i != children/2 {
				continue
			}
			c.update("replicasets.apps", "web", func(o store.Object) { *o.(*appsv1.ReplicaSet).Spec.Replicas = 7 })
			for began := time.Now(); replicas.Load() != 7; took = time.Since(began) {
				time.Sleep(time.Millisecond)
			}
		}
		time.Sleep(5 * takes)
		synctest.Wait()
		if n := asked.Load(); n > 15 {
			t.Errorf("it was asked %d times in a second of changes, want 15 at most", n)
		}
		if n := running.Load(); n != children {
			t.Errorf("a moment after the last change it was told that %d run, want %d", n, children)
		}
		if took > 3*takes {
			t.Errorf("a change of the parent was told after %s, want at most %s", took, 3*takes)
		}
	})
}
