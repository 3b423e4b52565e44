package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/host/store"
)

func testPages(t *testing.T, reopen func() store.Engine) {
	s := OpenEngine(t, reopen())
	var want []string
	for i := range 10 {
		ns := string(rune('a' + i/5))
		must(t, s, create(ns, fmt.Sprint("x", i), "old"))
		want = append(want, fmt.Sprintf("%s/x%d=old", ns, i))
	}
	opts := store.ListOptions{Limit: 3}
	var got []string
	for page := 0; ; page++ {
		list, err := s.List("configmaps", "", opts)
		if err != nil {
			t.Fatalf("page %d: %v", page, err)
		}
		got = append(got, values(list)...)
		if rest := int64(len(want) - len(got)); list.Remaining != rest || list.More != (rest > 0) {
			t.Errorf("page %d: remaining %d, more %v; want %d", page, list.Remaining, list.More, rest)
		}
		if !list.More {
			break
		}
		opts.After, opts.Revision = list.After, list.Revision
		must(t, s, update("b", "x9", fmt.Sprint("new", page), 0), create("b", fmt.Sprint("y", page), "new"))
		if page == 0 {
			must(t, s, remove("a", "x4", 0))
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("pages (-want +got):\n%s", d)
	}
	matchingPages(t, s)
	foreignPages(t, s)
}

// matchingPages are of what is looked for only.
func matchingPages(t *testing.T, s *store.Store) {
	t.Helper()
	one, err := s.List("configmaps", "a", store.ListOptions{Limit: 2, After: "a/x1", Match: func(obj store.Object) bool {
		return obj.GetName() != "x2"
	}})
	if d := cmp.Diff([]string{"a/x3=old"}, values(one)); err != nil || d != "" || one.More {
		t.Errorf("a matching page within a namespace: %v, more %v (-want +got):\n%s", err, one.More, d)
	}
	full, err := s.List("configmaps", "a", store.ListOptions{Limit: 2, Match: func(obj store.Object) bool {
		return obj.GetName() < "x2"
	}})
	if err != nil || len(full.Items) != 2 || !full.More || full.Remaining != 0 {
		t.Errorf("a full page with Match: %d items, more %v, remaining %d, %v", len(full.Items), full.More, full.Remaining, err)
	}
}

// foreignPages continue where nobody left off.
func foreignPages(t *testing.T, s *store.Store) {
	t.Helper()
	for _, after := range []string{"\xff/", "a", "/", "a/x\x00", "0/z"} {
		list, err := s.List("configmaps", "a", store.ListOptions{After: after})
		if err != nil {
			t.Errorf("after %q: %v", after, err)
		}
		for _, obj := range list.Items {
			if obj.GetNamespace() != "a" {
				t.Errorf("after %q: the page left its namespace", after)
			}
		}
	}
}

func testOldList(t *testing.T, reopen func() store.Engine) {
	s := OpenEngine(t, reopen())
	states := map[int64][]string{}
	note := func(rev int64) {
		list, err := s.List("configmaps", "", store.ListOptions{})
		if err != nil || list.Revision != rev {
			t.Fatalf("list at %d, %v; want %d", list.Revision, err, rev)
		}
		states[rev] = values(list)
	}
	note(must(t, s, create("a", "x", "1"), create("a", "y", "1")))
	note(must(t, s, update("a", "x", "2", 0), create("a", "z", "1")))
	note(must(t, s, remove("a", "x", 0)))
	note(must(t, s, create("a", "x", "3"), remove("a", "y", 0)))
	for rev, want := range states {
		list, err := s.List("configmaps", "", store.ListOptions{Revision: rev})
		if d := cmp.Diff(want, values(list)); err != nil || d != "" || list.Revision != rev {
			t.Errorf("list at %d: revision %d, %v (-want +got):\n%s", rev, list.Revision, err, d)
		}
	}
	if _, err := s.List("configmaps", "", store.ListOptions{Revision: s.Revision() + 1}); !errors.Is(err, store.ErrFuture) {
		t.Errorf("list in the future: %v", err)
	}
	if list, err := s.List("unheardof", "", store.ListOptions{}); err != nil || len(list.Items) > 0 || list.Revision != s.Revision() {
		t.Errorf("list of nothing: %v, %v", list, err)
	}
}

// next reads n events, however they come.
func next(t *testing.T, w *store.Watch, n int) (got []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for len(got) < n {
		events, err := w.Next(ctx)
		if err != nil {
			t.Fatalf("after %d of %d events: %v", len(got), n, err)
		}
		for _, ev := range events {
			got = append(got, summary(ev))
		}
	}
	return got
}

func testWatch(t *testing.T, reopen func() store.Engine) {
	s := OpenEngine(t, reopen())
	start := s.Revision()
	all, err := s.Watch("configmaps", "", start)
	if err != nil {
		t.Fatal(err)
	}
	one := must(t, s, create("a", "x", "1"), create("b", "y", "1"))
	two := must(t, s, update("a", "x", "2", 0))
	three := must(t, s, remove("a", "x", 0))
	want := []string{
		fmt.Sprintf("added a/x=1 was <none> @%d", one-1),
		fmt.Sprintf("added b/y=1 was <none> @%d", one),
		fmt.Sprintf("modified a/x=2 was 1 @%d", two),
		fmt.Sprintf("deleted a/x=2 was 2 @%d", three),
	}
	if d := cmp.Diff(want, next(t, all, 4)); d != "" {
		t.Errorf("all (-want +got):\n%s", d)
	}
	inA, err := s.Watch("configmaps", "a", one)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want[2:], next(t, inA, 2)); d != "" {
		t.Errorf("namespace a from %d (-want +got):\n%s", one, d)
	}
	must(t, s, store.Op{Kind: store.Create, Key: store.Key{Resource: "secrets", Namespace: "a", Name: "x"}, Object: configMap("a", "x", "other")})
	if all.Progress() != s.Revision() {
		t.Errorf("progress = %d, want %d: other resources' revisions count", all.Progress(), s.Revision())
	}
	four := must(t, s, create("b", "z", "1"))
	if all.Progress() >= four {
		t.Errorf("progress = %d before the event of %d was read", all.Progress(), four)
	}
	if _, err := s.Watch("configmaps", "", four+1); !errors.Is(err, store.ErrFuture) {
		t.Errorf("watch from the future: %v", err)
	}
	if _, err := s.Watch("configmaps", "", start-1); !errors.Is(err, store.ErrCompacted) {
		t.Errorf("watch from before the opening: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := inA.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled wait: %v", err)
	}
}

func testFallBehind(t *testing.T, reopen func() store.Engine) {
	s := OpenEngine(t, reopen(), store.Options{MaxEvents: 10})
	rev := must(t, s, create("a", "x", "0"))
	w, err := s.Watch("configmaps", "", rev)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 11 {
		must(t, s, update("a", "x", fmt.Sprint(i+1), 0))
	}
	if _, err := w.Next(t.Context()); !errors.Is(err, store.ErrCompacted) {
		t.Errorf("next: %v, want ErrCompacted", err)
	}
	if _, err := s.List("configmaps", "", store.ListOptions{Revision: rev}); !errors.Is(err, store.ErrCompacted) {
		t.Errorf("list at %d: %v, want ErrCompacted", rev, err)
	}
	if w, err = s.Watch("configmaps", "", rev+1); err != nil {
		t.Fatalf("watch from the edge of history: %v", err)
	}
	if got := next(t, w, 10); len(got) != 10 {
		t.Errorf("%d events", len(got))
	}
}

func testWatchIndexed(t *testing.T, reopen func() store.Engine) {
	s := OpenEngine(t, reopen(), store.Options{Indexes: byValue})
	start := s.Revision()
	one := must(t, s, create("a", "x", "1"), create("a", "y", "2"))
	early, err := s.WatchIndexed("configmaps", "value", "1", start)
	if err != nil {
		t.Fatal(err)
	}
	defer early.Stop()
	two := must(t, s, update("a", "x", "2", 0))
	three := must(t, s, update("a", "y", "1", 0))
	four := must(t, s, update("a", "x", "3", 0))
	five := must(t, s, remove("a", "y", 0))
	want := []string{
		fmt.Sprintf("added a/x=1 was <none> @%d", one-1),
		fmt.Sprintf("modified a/x=2 was 1 @%d", two),
		fmt.Sprintf("modified a/y=1 was 2 @%d", three),
		fmt.Sprintf("deleted a/y=1 was 1 @%d", five),
	}
	if d := cmp.Diff(want, next(t, early, 4)); d != "" {
		t.Errorf("value 1 (-want +got):\n%s", d)
	}
	late, err := s.WatchIndexed("configmaps", "value", "1", one)
	if err != nil {
		t.Fatal(err)
	}
	defer late.Stop()
	if d := cmp.Diff(want[1:], next(t, late, 3)); d != "" {
		t.Errorf("value 1 from %d (-want +got):\n%s", one, d)
	}
	earlier, err := s.WatchIndexed("configmaps", "value", "1", start)
	if err != nil {
		t.Fatal(err)
	}
	defer earlier.Stop()
	if d := cmp.Diff(want, next(t, earlier, 4)); d != "" {
		t.Errorf("value 1 from before the others (-want +got):\n%s", d)
	}
	six := must(t, s, update("a", "x", "4", 0))
	if early.Progress() != six || four >= six {
		t.Errorf("progress = %d after others' event at %d", early.Progress(), six)
	}
	if _, err := s.WatchIndexed("configmaps", "none", "1", six); err == nil {
		t.Errorf("an index that is not there was watched")
	}
}

func testIndexedFallBehind(t *testing.T, reopen func() store.Engine) {
	s := OpenEngine(t, reopen(), store.Options{Indexes: byValue, MaxEvents: 4})
	must(t, s, create("a", "x", "1"))
	start := must(t, s, create("a", "y", "2"))
	ones, err := s.WatchIndexed("configmaps", "value", "1", start)
	if err != nil {
		t.Fatal(err)
	}
	defer ones.Stop()
	twos, err := s.WatchIndexed("configmaps", "value", "2", start)
	if err != nil {
		t.Fatal(err)
	}
	defer twos.Stop()
	for i := range 10 {
		must(t, s, update("a", "y", fmt.Sprint("2-", i), 0))
	}
	if _, err := twos.Next(t.Context()); !errors.Is(err, store.ErrCompacted) {
		t.Errorf("a watch whose events are gone: %v, want ErrCompacted", err)
	}
	// Nothing of this one's value has gone by, so it is not behind.
	last := must(t, s, update("a", "x", "1-again", 0))
	if d := cmp.Diff([]string{fmt.Sprintf("modified a/x=1-again was 1 @%d", last)}, next(t, ones, 1)); d != "" {
		t.Errorf("an idle watch (-want +got):\n%s", d)
	}
	if _, err := s.WatchIndexed("configmaps", "value", "1", start); !errors.Is(err, store.ErrCompacted) {
		t.Errorf("a new watch from too far back: %v, want ErrCompacted", err)
	}
}
