package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/host/store"
	"github.com/berth-dev/berth/host/store/storetest"
)

func commit(t *testing.T, s *store.Store, ops ...store.Op) int64 {
	t.Helper()
	rev, _, err := s.Commit(t.Context(), ops...)
	if err != nil {
		t.Fatal(err)
	}
	return rev
}

func TestHistoryGoesWithTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := storetest.Open(t, store.Options{History: time.Minute})
		commit(t, s, create("x", "1"), create("y", "1"))
		rev := commit(t, s, update("x", "2", 0))
		page, err := s.List("configmaps", "", store.ListOptions{Limit: 1})
		if err != nil || !page.More {
			t.Fatalf("first page: %v", err)
		}
		time.Sleep(50 * time.Second)
		commit(t, s, update("x", "3", 0))
		if _, err := s.List("configmaps", "", store.ListOptions{Revision: rev, After: page.After, Limit: 1}); err != nil {
			t.Errorf("second page after 50 s: %v", err)
		}
		if _, err := s.Watch("configmaps", "", rev-1); err != nil {
			t.Errorf("watch after 50 s: %v", err)
		}
		time.Sleep(20 * time.Second)
		if _, err := s.Watch("configmaps", "", rev-1); !errors.Is(err, store.ErrCompacted) {
			t.Errorf("watch after 70 s: %v, want ErrCompacted", err)
		}
		if _, err := s.Watch("configmaps", "", rev); err != nil {
			t.Errorf("watch from the edge after 70 s: %v", err)
		}
		time.Sleep(time.Hour)
		for _, after := range []string{"", page.After} {
			_, err := s.List("configmaps", "", store.ListOptions{Revision: rev, After: after})
			if !errors.Is(err, store.ErrCompacted) {
				t.Errorf("list at %d after an hour: %v, want ErrCompacted", rev, err)
			}
		}
		if got := s.Stats().Resources["configmaps"]; got.Events != 0 || got.Objects != 2 {
			t.Errorf("after an hour: %+v", got)
		}
	})
}

func TestHistoryIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, store.Options{MaxHistoryBytes: 10_000})
	commit(t, s, create("x", "1"))
	for i := range 100 {
		commit(t, s, update("x", fmt.Sprint(i, strings.Repeat("v", 1000)), 0))
	}
	if n := s.Stats().Resources["configmaps"].Events; n < 5 || n > 10 {
		t.Errorf("%d events of 1 KB kept, want about 9", n)
	}
}

func TestManyPagersAreServed(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	for i := range 10 {
		commit(t, s, create(fmt.Sprint("x", i), "1"))
	}
	var pagers []store.List
	for i := range 200 {
		page, err := s.List("configmaps", "", store.ListOptions{Limit: 5})
		if err != nil {
			t.Fatal(err)
		}
		pagers = append(pagers, page)
		commit(t, s, update("x9", fmt.Sprint(i), 0))
	}
	for i, first := range pagers {
		page, err := s.List("configmaps", "", store.ListOptions{Revision: first.Revision, After: first.After})
		if err != nil || len(page.Items) != 5 || page.Revision != first.Revision {
			t.Errorf("pager %d: %d items at %d, %v", i, len(page.Items), page.Revision, err)
			continue
		}
		want := "1"
		if i > 0 {
			want = fmt.Sprint(i - 1)
		}
		if got := value(page.Items[4]); got != want {
			t.Errorf("pager %d read x9=%s, want %s", i, got, want)
		}
	}
}

func TestCompactForgetsAtOnce(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	commit(t, s, create("x", "1"), create("y", "1"))
	old := commit(t, s, update("x", "2", 0))
	if _, err := s.List("configmaps", "", store.ListOptions{Limit: 1}); err != nil {
		t.Fatal(err)
	}
	rev := commit(t, s, update("x", "3", 0))
	if err := s.Compact(rev + 1); !errors.Is(err, store.ErrFuture) {
		t.Errorf("compact of the future: %v", err)
	}
	if err := s.Compact(rev); err != nil {
		t.Fatal(err)
	}
	if _, err := s.List("configmaps", "", store.ListOptions{Revision: old}); !errors.Is(err, store.ErrCompacted) {
		t.Errorf("list at %d: %v, want ErrCompacted", old, err)
	}
	if _, err := s.Watch("configmaps", "", old); !errors.Is(err, store.ErrCompacted) {
		t.Errorf("watch from %d: %v, want ErrCompacted", old, err)
	}
	if list, err := s.List("configmaps", "", store.ListOptions{Revision: rev}); err != nil || value(list.Items[0]) != "3" {
		t.Errorf("list at %d: %v", rev, err)
	}
	if _, err := s.Watch("configmaps", "", rev); err != nil {
		t.Errorf("watch from %d: %v", rev, err)
	}
}
