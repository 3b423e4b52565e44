package node

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
)

// TestMachineLivesWhileItsRuntimeHangs: what the node is can not be said, that
// it is there can.
func TestMachineLivesWhileItsRuntimeHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var hangs atomic.Bool
		k := &Keeper{
			Client: fake.NewClientset(), Name: "n1", Log: slog.New(slog.DiscardHandler),
			Describe: func(ctx context.Context) *v1.Node {
				if hangs.Load() {
					<-ctx.Done()
				}
				return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
			},
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- k.Run(ctx) }()
		time.Sleep(5 * time.Second)
		hangs.Store(true)
		time.Sleep(5 * time.Minute)
		lease, err := k.Client.CoordinationV1().Leases(v1.NamespaceNodeLease).Get(ctx, "n1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if age := time.Since(lease.Spec.RenewTime.Time); age > LeaseSeconds*time.Second {
			t.Errorf("the lease was renewed %v ago", age)
		}
		cancel()
		<-done
	})
}

// TestALeaseBelongsToTheNodeThatIs: a Node that was deleted comes back as another, and
// a Lease of the former is collected.
func TestALeaseBelongsToTheNodeThatIs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var uid atomic.Value
		var hangs atomic.Bool
		uid.Store(types.UID("first"))
		k := &Keeper{
			Client: fake.NewClientset(), Name: "n1", Log: slog.New(slog.DiscardHandler),
			Describe: func(ctx context.Context) *v1.Node {
				if hangs.Load() {
					<-ctx.Done()
				}
				return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: uid.Load().(types.UID)}}
			},
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- k.Run(ctx) }()
		leases := k.Client.CoordinationV1().Leases(v1.NamespaceNodeLease)
		owned := func() {
			t.Helper()
			time.Sleep(time.Minute)
			lease, err := leases.Get(ctx, "n1", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if o := lease.OwnerReferences; len(o) != 1 || o[0].Kind != "Node" || o[0].UID != uid.Load() {
				t.Errorf("the lease of node %s belongs to %+v", uid.Load(), o)
			}
		}
		owned()
		uid.Store(types.UID("second"))
		if err := k.Client.CoreV1().Nodes().Delete(ctx, "n1", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := leases.Delete(ctx, "n1", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		owned()

		lease, err := leases.Get(ctx, "n1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		lease.OwnerReferences = nil
		if _, err := leases.Update(ctx, lease, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		owned()

		hangs.Store(true)
		if err := k.Client.CoreV1().Nodes().Delete(ctx, "n1", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := leases.Delete(ctx, "n1", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if lease, err := leases.Get(ctx, "n1", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("without a node there is the lease %+v, %v", lease, err)
		}
		cancel()
		<-done
	})
}
