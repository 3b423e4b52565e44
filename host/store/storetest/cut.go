package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/host/store"
)

// testCutWatch cuts a watch behind every single event and goes on from that
// event's revision, as a client does whose connection broke: it sees every
// later event, once.
func testCutWatch(t *testing.T, reopen func() store.Engine) {
	s := OpenEngine(t, reopen(), store.Options{Indexes: byValue})
	start := s.Revision()
	writeMany(t, s)
	watches := map[string]func(from int64) (*store.Watch, error){
		"all":            func(from int64) (*store.Watch, error) { return s.Watch("configmaps", "", from) },
		"of a namespace": func(from int64) (*store.Watch, error) { return s.Watch("configmaps", "a", from) },
		"of an index":    func(from int64) (*store.Watch, error) { return s.WatchIndexed("configmaps", "value", "1", from) },
		"of one object":  func(from int64) (*store.Watch, error) { return s.WatchObject(key("b", "x1-03"), from) },
	}
	for name, watch := range watches {
		whole, least := rest(t, watch, start), 20
		if name == "of one object" {
			least = 3
		}
		if len(whole) < least {
			t.Errorf("%s: %d events, too few to cut", name, len(whole))
		}
		for i, ev := range whole {
			if d := cmp.Diff(summaries(whole[i+1:]), summaries(rest(t, watch, ev.Revision))); d != "" {
				t.Errorf("%s: cut after event %d of %d, at %d (-want +got):\n%s", name, i+1, len(whole), ev.Revision, d)
			}
		}
	}
	checkStates(t, s, start)
}

// writeMany makes commits of several objects each: what is created, bound and
// deleted together.
func writeMany(t *testing.T, s *store.Store) {
	t.Helper()
	const pods = 12
	for round := range 3 {
		var creates, updates, removes []store.Op
		for i := range pods {
			ns, name := string(rune('a'+i%2)), fmt.Sprintf("x%d-%02d", round, i)
			creates = append(creates, create(ns, name, "1"))
			updates = append(updates, update(ns, name, fmt.Sprint("1-bound-", i), 0))
			if i%3 == 0 {
				removes = append(removes, remove(ns, name, 0))
			}
		}
		must(t, s, creates...)
		must(t, s, updates...)
		must(t, s, removes...)
	}
}

// rest reads what a watch from there shows until it has caught up.
func rest(t *testing.T, watch func(from int64) (*store.Watch, error), from int64) (all []store.Event) {
	t.Helper()
	w, err := watch(from)
	if err != nil {
		t.Fatalf("watch from %d: %v", from, err)
	}
	defer w.Stop()
	ended := make(chan time.Time)
	close(ended)
	for {
		events, err := w.NextBefore(context.WithoutCancel(t.Context()), ended)
		if err != nil {
			t.Fatalf("watch from %d, after %d events: %v", from, len(all), err)
		}
		if len(events) == 0 {
			return all
		}
		all = append(all, events...)
	}
}

func summaries(events []store.Event) (all []string) {
	for _, ev := range events {
		all = append(all, summary(ev))
	}
	return all
}

// checkStates holds that a list at the revision of any event shows what a
// watcher has seen up to it, also in the midst of a commit.
func checkStates(t *testing.T, s *store.Store, start int64) {
	t.Helper()
	state := map[string]string{}
	for _, ev := range rest(t, func(from int64) (*store.Watch, error) { return s.Watch("configmaps", "", from) }, start) {
		replay(t, state, ev)
		compare(t, s, "", ev.Revision, state)
	}
}
