package event

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/host/store"
	"github.com/berth-dev/berth/host/store/storetest"
)

func addNamespace(t *testing.T, s *store.Store, name string) {
	t.Helper()
	n := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, _, err := s.Commit(t.Context(), store.Op{Kind: store.Create, Key: namespaceKey(name), Object: n}); err != nil {
		t.Fatal(err)
	}
}

// mark writes that a namespace is deleted, which stays until it is empty.
func mark(t *testing.T, s *store.Store, name string) {
	t.Helper()
	n := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, DeletionTimestamp: &metav1.Time{Time: time.Now()}}}
	if _, _, err := s.Commit(t.Context(), store.Op{Kind: store.Update, Key: namespaceKey(name), Object: n}); err != nil {
		t.Fatal(err)
	}
}

// before is a store in which something happens before a commit.
type before struct {
	*store.Store
	happens func()
}

func (b before) Commit(ctx context.Context, ops ...store.Op) (int64, []store.Object, error) {
	b.happens()
	return b.Store.Commit(ctx, ops...)
}

func TestEventsAreWrittenInNamespacesThatStay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first, then func(t *testing.T, s *store.Store)
	}{
		"one that is not there": {},
		"one that ends":         {first: func(t *testing.T, s *store.Store) { addNamespace(t, s, "other"); mark(t, s, "other") }},
		"one that ends when the event is on its way": {
			first: func(t *testing.T, s *store.Store) { addNamespace(t, s, "other") },
			then:  func(t *testing.T, s *store.Store) { mark(t, s, "other") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := storetest.Open(t)
			addNamespace(t, s, "default")
			if c.first != nil {
				c.first(t, s)
			}
			once := func() {
				if c.then != nil {
					c.then(t, s)
					c.then = nil
				}
			}
			w := NewWriter(before{s, once}, func(store.Object) (string, string) { return "v1", "Pod" }, time.Now, slog.New(slog.DiscardHandler))
			elsewhere := pod("b")
			elsewhere.Namespace, elsewhere.UID = "other", "uid-b"
			node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "uid-n"}}
			w.write(t.Context(), []occurrence{
				{about: pod("a"), reason: "A", at: time.Now()}, {about: elsewhere, reason: "B", at: time.Now()}, {about: node, reason: "N", at: time.Now()},
				{about: elsewhere, reason: "B", at: time.Now()},
			})
			list, err := s.List(resource, "", store.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var written []string
			for _, o := range list.Items {
				written = append(written, o.GetNamespace()+" "+o.(*v1.Event).Reason)
			}
			if want := []string{"default A", "default N"}; !slices.Equal(written, want) {
				t.Errorf("events = %q, want %q", written, want)
			}
			if w.Dropped() != 0 {
				t.Errorf("%d are counted as dropped, want none: there is nobody to tell", w.Dropped())
			}
		})
	}
}
