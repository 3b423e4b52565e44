package node

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// TestMachineLivesWhileItsRuntimeHangs: what the node is can not be said, that
// it is there can.
func TestMachineLivesWhileItsRuntimeHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hangs := false
		k := &Keeper{
			Client: fake.NewClientset(), Name: "n1", Log: slog.New(slog.DiscardHandler),
			Describe: func(ctx context.Context) *v1.Node {
				if hangs {
					<-ctx.Done()
				}
				return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
			},
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- k.Run(ctx) }()
		time.Sleep(5 * time.Second)
		hangs = true
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
