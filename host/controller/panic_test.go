package controller

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/host/logtest"
	"github.com/berth-dev/berth/host/store"
)

// startled panics over what the set "strange" would make.
type startled struct {
	*cluster
	rolledBack *atomic.Int64
}

func (s startled) Begin() Transaction { return startledTx{&tx{cluster: s.cluster}, s.rolledBack} }

type startledTx struct {
	*tx
	rolledBack *atomic.Int64
}

func (x startledTx) Create(ctx context.Context, resource string, o store.Object) (store.Object, error) {
	if owner := metav1.GetControllerOf(o); owner != nil && owner.Name == "strange" {
		panic("never thought of")
	}
	return x.tx.Create(ctx, resource, o)
}

func (x startledTx) Rollback() { x.rolledBack.Add(1) }

func TestAPanicFailsItsParentAlone(t *testing.T) {
	t.Parallel()
	var rolledBack atomic.Int64
	var log logtest.Text
	driveAs(t, &guest{decide: keep}, func(c *cluster, cfg *Config) {
		cfg.Writer, cfg.Workers = startled{c, &rolledBack}, 1
		cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	}, func(c *cluster) {
		c.put("replicasets.apps", set("strange", 1))
		c.put("replicasets.apps", set("web", 3))
	}, func(c *cluster) {
		if got := strings.Count(strings.Join(c.pods(), " "), "of web"); got != 3 {
			t.Errorf("%d pods of another parent, want 3", got)
		}
		tries := rolledBack.Load()
		if tries == 0 || tries > 12 {
			t.Errorf("rolled back %d times in 2 s, want each time, and to back off", tries)
		}
		if got := strings.Join(c.notes, "\n"); !strings.Contains(got, "ReplicaSet default/strange: the host panicked over it, and its log says where: never thought of") {
			t.Errorf("notes %q, want the panic", got)
		}
		if got := log.String(); !strings.Contains(got, "reconcile panicked") || !strings.Contains(got, "startledTx.Create") {
			t.Errorf("the log has no stack: %s", got)
		}
	})
}
