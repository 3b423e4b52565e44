package network

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/host/store"
	"github.com/berth-dev/berth/host/store/storetest"
)

// Who follows is told of deletions, too, that it missed because the history was
// compacted while it was busy.
func TestDeletionsAreToldAfterAWatchWasCut(t *testing.T) {
	t.Parallel()
	st := storetest.Open(t)
	commit := func(kind store.OpKind, name string, labels map[string]string) {
		t.Helper()
		op := store.Op{Kind: kind, Key: store.Key{Resource: services, Namespace: "ns", Name: name}}
		if kind != store.Delete {
			op.Object = &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: labels}}
		}
		if _, _, err := st.Commit(t.Context(), op); err != nil {
			t.Fatal(err)
		}
	}
	commit(store.Create, "kept", nil)
	commit(store.Create, "gone", nil)

	n := &Network{store: st}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	told, first := map[string]store.EventType{}, make(chan struct{})
	listed := sync.OnceFunc(func() { close(first) })
	ended := make(chan error, 1)
	go func() {
		ended <- n.follow(ctx, services, func(_ context.Context, e store.Event) {
			told[e.Key.Name] = e.Type
			switch {
			case e.Type == store.Added && e.Key.Name == "kept":
				listed()
			case e.Type == store.Modified: // it is busy while the history is compacted
				commit(store.Delete, "gone", nil)
				commit(store.Create, "new", nil)
				if err := st.Compact(st.Revision()); err != nil {
					t.Error(err)
				}
			case e.Key.Name == "gone" && e.Type == store.Deleted:
				cancel()
			}
		})
	}()
	<-first
	commit(store.Update, "kept", map[string]string{"changed": "yes"})
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if told["kept"] != store.Added || told["new"] != store.Added {
		t.Errorf("told %v, want all that are there anew", told)
	}
}

// Nor does it end where the history is compacted while it is told of what was listed.
func TestFollowingGoesOnAfterACompactionBeforeTheWatch(t *testing.T) {
	t.Parallel()
	st := storetest.Open(t)
	create := func(name string) {
		t.Helper()
		op := store.Op{Kind: store.Create, Key: store.Key{Resource: services, Namespace: "ns", Name: name}, Object: &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}}
		if _, _, err := st.Commit(t.Context(), op); err != nil {
			t.Fatal(err)
		}
	}
	create("first")
	n := &Network{store: st}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	again := false
	err := n.follow(ctx, services, func(_ context.Context, e store.Event) {
		switch {
		case e.Key.Name == "second":
			cancel()
		case !again:
			again = true
			create("second")
			create("third")
			if err := st.Compact(st.Revision()); err != nil {
				t.Error(err)
			}
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("it ended: %v", err)
	}
}
