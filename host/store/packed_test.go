package store_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"weak"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/berth-dev/berth/host/store"
	"github.com/berth-dev/berth/host/store/storetest"
)

func packing() store.Options {
	values := func(o store.Object) []string { return []string{value(o)} }
	return store.Options{
		Packed:  []string{"configmaps"},
		Indexes: map[string]map[string]store.IndexFunc{"configmaps": {"value": values}},
	}
}

func get(t *testing.T, s *store.Store, name string) *corev1.ConfigMap {
	t.Helper()
	o, ok := s.Get(key(name))
	if !ok {
		t.Fatalf("%s is not there", name)
	}
	return o.(*corev1.ConfigMap)
}

func pass(t *testing.T, s *store.Store) {
	t.Helper()
	if err := s.Compact(s.Revision()); err != nil {
		t.Fatal(err)
	}
}

func TestAPackedObjectIsWhatItWas(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, packing())
	commit(t, s, create("x", "1"))
	commit(t, s, create("y", "2"))
	was := get(t, s, "x")
	if get(t, s, "x") != was {
		t.Error("readers do not share what history shows")
	}
	pass(t, s)
	now := get(t, s, "x")
	if now == was {
		t.Error("the object was not let go of")
	}
	if diff := cmp.Diff(was, now); diff != "" {
		t.Errorf("the packed object (-want +got):\n%s", diff)
	}
	list, err := s.List("configmaps", "", store.ListOptions{Match: func(o store.Object) bool { return value(o) == "2" }})
	if err != nil || len(list.Items) != 1 || list.Items[0].GetName() != "y" {
		t.Errorf("list = %v, %v, want y", list.Items, err)
	}
	if found := s.Indexed("configmaps", "value", "1"); len(found) != 1 || !cmp.Equal(store.Object(was), found[0]) {
		t.Errorf("index = %v, want x as it was", found)
	}
	encode := func(o store.Object) ([]byte, error) { return []byte("as " + value(o)), nil }
	if data, err := list.Shared(0, "f", encode); err != nil || string(data) != "as 2" {
		t.Errorf("shared = %q, %v, want as 2", data, err)
	}
}

func TestAPackedObjectCanBeChangedAndDeleted(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, packing())
	commit(t, s, create("x", "1"))
	was := get(t, s, "x").DeepCopy()
	pass(t, s)
	from := s.Revision()
	// An update that changes nothing keeps the revision, also of what was lent.
	lent := get(t, s, "x")
	rev, _, err := s.Commit(t.Context(), store.Op{Kind: store.Update, Key: key("x"), Object: lent})
	if err != nil || rev != from || lent.ResourceVersion != was.ResourceVersion {
		t.Errorf("an idle update gives revision %d, %v, and the object %q", rev, err, lent.ResourceVersion)
	}
	change := func(o store.Object) (store.Object, error) {
		next := o.DeepCopyObject().(*corev1.ConfigMap)
		next.Data["value"] = "2"
		return next, nil
	}
	if _, err := s.Update(t.Context(), key("x"), change); err != nil {
		t.Fatal(err)
	}
	commit(t, s, store.Op{Kind: store.Delete, Key: key("x")})
	w, err := s.Watch("configmaps", "", from)
	if err != nil {
		t.Fatal(err)
	}
	events, err := w.Next(t.Context())
	if err != nil || len(events) != 2 {
		t.Fatalf("events = %v, %v, want an update and a deletion", events, err)
	}
	if diff := cmp.Diff(store.Object(was), events[0].Prev); diff != "" {
		t.Errorf("the state before (-want +got):\n%s", diff)
	}
	if value(events[0].Object) != "2" || events[1].Type != store.Deleted || value(events[1].Object) != "2" {
		t.Errorf("events = %+v", events)
	}
	if found := s.Indexed("configmaps", "value", "1"); len(found) != 0 {
		t.Errorf("the index still has %v", found)
	}
}

func TestAPackedObjectTakesNoMemoryOfItsOwn(t *testing.T) {
	t.Parallel()
	engine := store.NewMemory()
	s := storetest.OpenEngine(t, engine, packing())
	commit(t, s, create("x", "1"))
	there := weak.Make(get(t, s, "x"))
	pass(t, s)
	runtime.GC()
	if there.Value() != nil {
		t.Error("the object is still in memory")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = storetest.OpenEngine(t, engine, packing())
	one, two := get(t, s, "x"), get(t, s, "x")
	if one == two || value(one) != "1" || !cmp.Equal(one, two) {
		t.Errorf("after a restart readers get %v and %v, want copies of x", one, two)
	}
}

// forgetful decodes nothing after a while.
type forgetful struct {
	storetest.Codec
	broken *bool
}

func (f forgetful) Decode(resource string, data []byte) (store.Object, error) {
	if *f.broken {
		return nil, errors.New("broken")
	}
	return f.Codec.Decode(resource, data)
}

func TestAPackedObjectThatCannotBeDecodedKeepsItsName(t *testing.T) {
	t.Parallel()
	broken := false
	codec := forgetful{storetest.Codec{Scheme: scheme.Scheme}, &broken}
	s, err := store.Open(context.WithoutCancel(t.Context()), store.NewMemory(), codec, store.Options{Packed: []string{"configmaps"}})
	if err != nil {
		t.Fatal(err)
	}
	commit(t, s, create("x", "1"))
	pass(t, s)
	broken = true
	o, ok := s.Get(key("x"))
	if !ok || o.GetName() != "x" || o.GetResourceVersion() == "" {
		t.Errorf("Get = %v, %v, want an object called x", o, ok)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
