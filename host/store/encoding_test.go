package store_test

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"weak"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/host/store"
	"github.com/berth-dev/berth/host/store/storetest"
)

func value(obj store.Object) string { return obj.(*corev1.ConfigMap).Data["value"] }

func TestEncodingIsMadeOnceForAll(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	start := s.Revision()
	commit(t, s, create("x", "1"))
	commit(t, s, update("x", "2", 0))
	var calls atomic.Int64
	encode := func(obj store.Object) ([]byte, error) {
		calls.Add(1)
		return []byte("as " + value(obj)), nil
	}
	check := func(want string, data []byte, err error) {
		if err != nil || string(data) != want {
			t.Errorf("shared = %q, %v; want %q", data, err, want)
		}
	}
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			w, err := s.Watch("configmaps", "", start)
			if err != nil {
				t.Error(err)
				return
			}
			events, err := w.Next(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			for i, ev := range events {
				data, err := ev.Shared("f", encode)
				check(fmt.Sprint("as ", i+1), data, err)
			}
			data, err := events[1].SharedPrev("f", encode)
			check("as 1", data, err)
			list, err := s.List("configmaps", "", store.ListOptions{})
			if err != nil {
				t.Error(err)
				return
			}
			data, err = list.Shared(0, "f", encode)
			check("as 2", data, err)
			data, err = list.Shared(0, "g", encode)
			check("as 2", data, err)
		})
	}
	group.Wait()
	if calls.Load() != 3 {
		t.Errorf("encoded %d times, want 3: two states in f, one in g", calls.Load())
	}
}

func TestEncodingsAreBounded(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, store.Options{SharedBytes: 20_000})
	for i := range 100 {
		commit(t, s, create(fmt.Sprint("x", i), "1"))
	}
	list, err := s.List("configmaps", "", store.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	encode := func(store.Object) ([]byte, error) { calls++; return make([]byte, 1000), nil }
	all := func() {
		for i := range list.Items {
			if _, err := list.Shared(i, "f", encode); err != nil {
				t.Fatal(err)
			}
		}
	}
	all()
	all()
	if calls != 200 {
		t.Errorf("%d encodings for two rounds over 100 objects of which 10 fit, want 200", calls)
	}
	for range 5 {
		if _, err := list.Shared(99, "f", encode); err != nil {
			t.Fatal(err)
		}
	}
	if calls != 200 {
		t.Errorf("the last encodings were not kept")
	}
}

func TestEventMadeByHandIsEncoded(t *testing.T) {
	t.Parallel()
	bad := errors.New("bad")
	ev := store.Event{Object: object("x", "1")}
	if _, err := ev.Shared("f", func(store.Object) ([]byte, error) { return nil, bad }); !errors.Is(err, bad) {
		t.Errorf("error = %v, want %v", err, bad)
	}
}

func TestEqualManagedFieldsAreSharedAlsoAfterRestart(t *testing.T) {
	t.Parallel()
	engine := store.NewMemory()
	s := storetest.OpenEngine(t, engine)
	list := []metav1.ManagedFieldsEntry{{Manager: "m", FieldsV1: metav1.NewFieldsV1(`{"f:data":{}}`)}}
	for i := range 2 {
		op := create(fmt.Sprint("x", i), "1")
		op.Object.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "m", FieldsV1: metav1.NewFieldsV1(`{"f:data":{}}`)}})
		commit(t, s, op)
	}
	lent := create("lent", "1")
	lent.Object.SetManagedFields(list)
	own := list[0].FieldsV1
	commit(t, s, lent)
	if list[0].FieldsV1 != own {
		t.Errorf("a list that belongs to the caller was changed")
	}
	check := func(when string) {
		t.Helper()
		a, _ := s.Get(key("x0"))
		for _, name := range []string{"x1", "lent"} {
			b, _ := s.Get(key(name))
			if a.GetManagedFields()[0].FieldsV1 != b.GetManagedFields()[0].FieldsV1 {
				t.Errorf("%s: x0 and %s hold a set each", when, name)
			}
		}
	}
	check("live")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = storetest.OpenEngine(t, engine)
	check("after a restart")
}

// TestAStateThatNobodyNeedsIsForgotten holds that encodings do not keep what was
// superseded or deleted, once history has passed it by.
func TestAStateThatNobodyNeedsIsForgotten(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	encode := func(obj store.Object) ([]byte, error) { return []byte(value(obj)), nil }
	var states []weak.Pointer[corev1.ConfigMap]
	for _, op := range []store.Op{create("x", "1"), update("x", "2", 0), update("x", "3", 0)} {
		commit(t, s, op)
		list, err := s.List("configmaps", "", store.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := list.Shared(0, "f", encode); err != nil {
			t.Fatal(err)
		}
		states = append(states, weak.Make(list.Items[0].(*corev1.ConfigMap)))
	}
	if err := s.Compact(s.Revision()); err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	for i, state := range states {
		if there, want := state.Value() != nil, i == len(states)-1; there != want {
			t.Errorf("state %d is in memory: %v, want %v", i+1, there, want)
		}
	}
	if got, ok := s.Get(key("x")); !ok || value(got) != "3" {
		t.Errorf("the object is %v, want 3", got)
	}
}
