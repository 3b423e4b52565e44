package storetest

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/host/store"
)

// key and configMap make the suite's objects: a ConfigMap with one value.
func key(ns, name string) store.Key {
	return store.Key{Resource: "configmaps", Namespace: ns, Name: name}
}

func configMap(ns, name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Labels: map[string]string{"value": value}},
		Data:       map[string]string{"value": value},
	}
}

func value(obj store.Object) string {
	if obj == nil {
		return "<none>"
	}
	return obj.(*corev1.ConfigMap).Data["value"]
}

func create(ns, name, v string) store.Op {
	return store.Op{Kind: store.Create, Key: key(ns, name), Object: configMap(ns, name, v)}
}

func update(ns, name, v string, expect int64) store.Op {
	return store.Op{Kind: store.Update, Key: key(ns, name), Object: configMap(ns, name, v), Expect: expect}
}

func remove(ns, name string, expect int64) store.Op {
	return store.Op{Kind: store.Delete, Key: key(ns, name), Expect: expect}
}

func must(t *testing.T, s *store.Store, ops ...store.Op) int64 {
	t.Helper()
	rev, objs, err := s.Commit(t.Context(), ops...)
	if err != nil {
		t.Fatalf("commit: %v", err)
	}
	if len(objs) != len(ops) {
		t.Fatalf("commit of %d ops returned %d objects", len(ops), len(objs))
	}
	return rev
}

// summary writes an event as a test wants to compare it.
func summary(ev store.Event) string {
	kind := [...]string{"added", "modified", "deleted"}[ev.Type]
	return kind + " " + ev.Key.Namespace + "/" + ev.Key.Name + "=" + value(ev.Object) + " was " + value(ev.Prev) + " @" + ev.Object.GetResourceVersion()
}

func values(list store.List) []string {
	var vs []string
	for _, obj := range list.Items {
		vs = append(vs, obj.GetNamespace()+"/"+obj.GetName()+"="+value(obj))
	}
	return vs
}

// Store runs the suite of what a store keeps true. open returns a new engine
// over the same data at each call of reopen, after the one before was closed.
func Store(t *testing.T, engine func(t *testing.T) (reopen func() store.Engine)) {
	for name, test := range storeTests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, engine(t))
		})
	}
}

var storeTests = map[string]func(t *testing.T, reopen func() store.Engine){
	"a commit is read back at its revisions":           testReadBack,
	"each object of a commit has its own revision":     testOwnRevisions,
	"a refused op refuses its whole commit":            testAllOrNothing,
	"an op on the wrong revision is refused":           testRefusals,
	"an update to the same bytes makes no revision":    testNoop,
	"revisions grow over restarts":                     testRestart,
	"a list in pages shows one revision":               testPages,
	"a list at an older revision shows what was then":  testOldList,
	"a watch shows every change in order":              testWatch,
	"a watch cut anywhere goes on where it was cut":    testCutWatch,
	"a watch that fell behind is told so":              testFallBehind,
	"an index finds objects by their newest state":     testIndex,
	"a watch of an index sees what comes and leaves":   testWatchIndexed,
	"a watch of an index can fall behind too":          testIndexedFallBehind,
	"update tries again after a conflict":              testUpdate,
	"blobs come back whole":                            testBlobs,
	"a backup restores into an empty engine":           testBackup,
	"a backup shows one revision":                      testBackupMoment,
	"what is handed back unchanged stays shared":       testSharedObject,
	"a closed store says so":                           testClosed,
	"writers, lists and watches agree at every moment": testConcurrent,
	"commits that race for a key are taken one by one": testRace,
}

func testReadBack(t *testing.T, reopen func() store.Engine) {
	s := OpenEngine(t, reopen())
	before := s.Revision()
	rev := must(t, s, create("a", "x", "1"), create("b", "y", "2"))
	if rev != before+2 || s.Revision() != rev {
		t.Errorf("revision %d then %d, Revision() = %d; want one more for each object", before, rev, s.Revision())
	}
	obj, ok := s.Get(key("b", "y"))
	if !ok || value(obj) != "2" || obj.GetResourceVersion() != strconv.FormatInt(rev, 10) {
		t.Errorf("Get(b/y) = %v, %v; want value 2 at %d", obj, ok, rev)
	}
	if _, ok := s.Get(key("b", "x")); ok {
		t.Errorf("Get(b/x) found what was not written")
	}
}

// testOwnRevisions: a commit takes one revision for each object that it changes,
// in the order of its ops, and answers the last of them.
func testOwnRevisions(t *testing.T, reopen func() store.Engine) {
	s := OpenEngine(t, reopen())
	start := must(t, s, create("a", "same", "1"), create("a", "gone", "1"))
	_, _, err := s.Commit(t.Context(),
		create("a", "x", "1"), update("a", "same", "1", 0), remove("a", "gone", 0), update("b", "y", "2", 0))
	if !errors.Is(err, store.ErrNotFound) || s.Revision() != start {
		t.Errorf("a refused commit: %v at %d, want ErrNotFound and no revision taken after %d", err, s.Revision(), start)
	}
	rev, objs, err := s.Commit(t.Context(), create("a", "x", "1"), update("a", "same", "1", 0), remove("a", "gone", 0), create("b", "y", "2"))
	if err != nil {
		t.Fatal(err)
	}
	var got []int64
	for _, obj := range objs {
		got = append(got, revision(t, obj)-start)
	}
	if d := cmp.Diff([]int64{1, -1, 2, 3}, got); d != "" || rev != start+3 || s.Revision() != rev {
		t.Errorf("revision %d, the store is at %d, after %d; of the objects (-want +got):\n%s", rev, s.Revision(), start, d)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = OpenEngine(t, reopen())
	for name, want := range map[string]int64{"a/same": start - 1, "a/x": start + 1, "b/y": start + 3} {
		ns, name, _ := strings.Cut(name, "/")
		if obj, ok := s.Get(key(ns, name)); !ok || revision(t, obj) != want {
			t.Errorf("after a restart %s/%s is %v, want revision %d", ns, name, obj, want)
		}
	}
	if next := must(t, s, create("a", "z", "1")); s.Revision() != next || next != start+4 {
		t.Errorf("the next commit is at %d, want %d", next, start+4)
	}
}

func testAllOrNothing(t *testing.T, reopen func() store.Engine) {
	s := OpenEngine(t, reopen())
	must(t, s, create("a", "x", "1"))
	before := s.Revision()
	_, _, err := s.Commit(t.Context(), create("a", "y", "1"), create("a", "x", "1"))
	if !errors.Is(err, store.ErrExists) {
		t.Errorf("create of what exists: %v, want ErrExists", err)
	}
	if _, ok := s.Get(key("a", "y")); ok || s.Revision() != before {
		t.Errorf("a refused commit left something behind")
	}
	if _, _, err := s.Commit(t.Context(), create("a", "z", "1"), remove("a", "z", 0)); err == nil {
		t.Errorf("a key twice in one commit was taken")
	}
}

func testRefusals(t *testing.T, reopen func() store.Engine) {
	s := OpenEngine(t, reopen())
	rev := must(t, s, create("a", "x", "1"))
	for name, tc := range map[string]struct {
		op   store.Op
		want error
	}{
		"update of nothing":       {update("a", "none", "2", 0), store.ErrNotFound},
		"delete of nothing":       {remove("a", "none", 0), store.ErrNotFound},
		"update of another state": {update("a", "x", "2", rev-1), store.ErrConflict},
		"delete of another state": {remove("a", "x", rev+1), store.ErrConflict},
		"create of what is there": {create("a", "x", "2"), store.ErrExists},
	} {
		_, _, err := s.Commit(t.Context(), tc.op)
		if !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
		var refused *store.Error
		if !errors.As(err, &refused) || refused.Key != tc.op.Key {
			t.Errorf("%s: the error %v does not name %v", name, err, tc.op.Key)
		}
		if tc.want == store.ErrConflict && refused.Have != rev {
			t.Errorf("%s: have %d, want %d", name, refused.Have, rev)
		}
	}
	big := configMap("a", "big", strings.Repeat("x", 32<<20))
	_, _, err := s.Commit(t.Context(), store.Op{Kind: store.Create, Key: key("a", "big"), Object: big})
	if !errors.Is(err, store.ErrTooLarge) {
		t.Errorf("32 MiB: %v, want ErrTooLarge", err)
	}
	for name, op := range map[string]store.Op{
		"no name":        {Kind: store.Create, Key: key("a", ""), Object: configMap("a", "", "1")},
		"NUL":            {Kind: store.Create, Key: key("a\x00b", "x"), Object: configMap("a\x00b", "x", "1")},
		"another object": {Kind: store.Create, Key: key("a", "y"), Object: configMap("a", "x", "1")},
		"no object":      {Kind: store.Create, Key: key("a", "y")},
		"unknown kind":   {Kind: 9, Key: key("a", "y"), Object: configMap("a", "y", "1")},
	} {
		if _, _, err := s.Commit(t.Context(), op); err == nil {
			t.Errorf("%s: was taken", name)
		}
	}
}

func testNoop(t *testing.T, reopen func() store.Engine) {
	s := OpenEngine(t, reopen())
	rev := must(t, s, create("a", "x", "1"))
	got, objs, err := s.Commit(t.Context(), update("a", "x", "1", rev))
	if err != nil || got != rev || objs[0].GetResourceVersion() != strconv.FormatInt(rev, 10) {
		t.Errorf("no-op update: %d, %v, %v; want revision %d kept", got, objs, err, rev)
	}
	if next := must(t, s, update("a", "x", "1", rev), create("a", "y", "1")); next != rev+1 {
		t.Errorf("a no-op beside a change: revision %d, want %d", next, rev+1)
	}
	list, err := s.List("configmaps", "", store.ListOptions{})
	if err != nil || list.Items[0].GetResourceVersion() != strconv.FormatInt(rev, 10) {
		t.Errorf("the untouched object moved to %s: %v", list.Items[0].GetResourceVersion(), err)
	}
}

func testRestart(t *testing.T, reopen func() store.Engine) {
	s := OpenEngine(t, reopen())
	must(t, s, create("a", "x", "1"))
	created := must(t, s, create("a", "y", "2"))
	last := must(t, s, remove("a", "x", 0))
	if err := s.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	s = OpenEngine(t, reopen())
	if s.Revision() != last {
		t.Errorf("revision after restart = %d, want %d, that of the deletion", s.Revision(), last)
	}
	obj, ok := s.Get(key("a", "y"))
	if !ok || value(obj) != "2" || obj.GetResourceVersion() != strconv.FormatInt(created, 10) {
		t.Errorf("after restart Get(a/y) = %v", obj)
	}
	if _, ok := s.Get(key("a", "x")); ok {
		t.Errorf("the deleted object came back")
	}
	if _, err := s.Watch("configmaps", "", last-1); !errors.Is(err, store.ErrCompacted) {
		t.Errorf("watch from before the restart: %v, want ErrCompacted", err)
	}
	if _, err := s.List("configmaps", "", store.ListOptions{Revision: last - 1}); !errors.Is(err, store.ErrCompacted) {
		t.Errorf("list from before the restart: %v, want ErrCompacted", err)
	}
	if _, err := s.Watch("configmaps", "", last); err != nil {
		t.Errorf("watch from the last revision: %v", err)
	}
	if next := must(t, s, create("a", "z", "3")); next != last+1 {
		t.Errorf("first revision after restart = %d, want %d", next, last+1)
	}
}

func testUpdate(t *testing.T, reopen func() store.Engine) {
	s := OpenEngine(t, reopen())
	must(t, s, create("a", "x", "1"))
	calls := 0
	obj, err := s.Update(t.Context(), key("a", "x"), func(old store.Object) (store.Object, error) {
		if calls++; calls == 1 {
			must(t, s, update("a", "x", "2", 0))
		}
		return configMap("a", "x", value(old)+"!"), nil
	})
	if err != nil || value(obj) != "2!" || calls != 2 {
		t.Errorf("update = %v, %v after %d calls; want 2! after 2", value(obj), err, calls)
	}
	_, err = s.Update(t.Context(), key("a", "none"), func(old store.Object) (store.Object, error) { return old, nil })
	if !errors.Is(err, store.ErrNotFound) {
		t.Errorf("update of nothing: %v", err)
	}
	stop := errors.New("stop")
	_, err = s.Update(t.Context(), key("a", "x"), func(store.Object) (store.Object, error) { return nil, stop })
	if !errors.Is(err, stop) {
		t.Errorf("update that gives up: %v", err)
	}
}

// byValue finds objects by the first character of their value.
var byValue = map[string]map[string]store.IndexFunc{"configmaps": {
	"value": func(obj store.Object) []string { return []string{value(obj)[:1], value(obj)[:1]} },
}}

func testIndex(t *testing.T, reopen func() store.Engine) {
	opts := store.Options{Indexes: byValue}
	s := OpenEngine(t, reopen(), opts)
	must(t, s, create("a", "x", "1"), create("a", "y", "1"), create("b", "z", "2"))
	must(t, s, update("a", "x", "2", 0), remove("a", "y", 0))
	check := func(when string) {
		t.Helper()
		for v, want := range map[string][]string{"1": nil, "2": {"a/x=2", "b/z=2"}, "3": nil} {
			got := values(store.List{Items: s.Indexed("configmaps", "value", v)})
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s: index value=%s (-want +got):\n%s", when, v, d)
			}
		}
	}
	check("live")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = OpenEngine(t, reopen(), opts)
	check("after a restart")
	if got := s.Indexed("configmaps", "none", "1"); got != nil {
		t.Errorf("an index that is not there found %v", got)
	}
}

func testSharedObject(t *testing.T, reopen func() store.Engine) {
	s := OpenEngine(t, reopen())
	rev := must(t, s, create("a", "x", "1"))
	shared, _ := s.Get(key("a", "x"))
	if _, _, err := s.Commit(t.Context(), store.Op{Kind: store.Update, Key: key("a", "x"), Object: shared}); err != nil {
		t.Fatal(err)
	}
	if shared.GetResourceVersion() != strconv.FormatInt(rev, 10) {
		t.Errorf("an object that readers share was changed")
	}
}

func testClosed(t *testing.T, reopen func() store.Engine) {
	s := OpenEngine(t, reopen())
	rev := must(t, s, create("a", "x", "1"))
	w, err := s.Watch("configmaps", "", rev)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Next(context.Background()); !errors.Is(err, store.ErrClosed) {
		t.Errorf("watch: %v, want ErrClosed", err)
	}
	if _, _, err := s.Commit(context.Background(), create("a", "y", "1")); !errors.Is(err, store.ErrClosed) {
		t.Errorf("commit: %v, want ErrClosed", err)
	}
	if err := s.PutBlob(context.Background(), "d", nil); !errors.Is(err, store.ErrClosed) {
		t.Errorf("blob: %v, want ErrClosed", err)
	}
}
