package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/berth-dev/berth/host/store"
)

// testRace has many writers add to few counters: no addition is lost or done
// twice, whichever way the counter is guarded.
func testRace(t *testing.T, reopen func() store.Engine) {
	s := OpenEngine(t, reopen())
	const writers, additions = 16, 25
	names := []string{"x", "y"}
	for _, name := range names {
		must(t, s, create("a", name, "0"))
	}
	g, ctx := errgroup.WithContext(t.Context())
	for w := range writers {
		g.Go(func() error {
			for n := range additions {
				if err := add(ctx, s, names[(w+n)%len(names)]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, name := range names {
		obj, _ := s.Get(key("a", name))
		n, err := strconv.Atoi(value(obj))
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	if sum != writers*additions {
		t.Errorf("counters sum up to %d after %d additions", sum, writers*additions)
	}
}

func add(ctx context.Context, s *store.Store, name string) error {
	_, err := s.Update(ctx, key("a", name), func(old store.Object) (store.Object, error) {
		n, err := strconv.Atoi(value(old))
		return configMap("a", name, fmt.Sprint(n+1)), err
	})
	return err
}

// testConcurrent lets writers write at random, while readers list, follow a
// watch from there, and compare what they followed with lists at the revision
// that they reached.
func testConcurrent(t *testing.T, reopen func() store.Engine) {
	s := OpenEngine(t, reopen(), store.Options{Indexes: byValue})
	must(t, s, create("a", "anchor", "0"), create("b", "anchor", "0"))
	var written atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var writers, readers sync.WaitGroup
	for w := range 8 {
		writers.Go(func() { writeAtRandom(t, s, uint64(w), &written) })
	}
	for r := range 6 {
		readers.Go(func() { follow(ctx, t, s, []string{"", "a", "b"}[r%3]) })
	}
	for r := range 3 {
		readers.Go(func() { followIndex(ctx, t, s, fmt.Sprint(r)) })
	}
	readers.Go(func() { pages(ctx, t, s) })
	writers.Wait()
	stop()
	readers.Wait()
	if written.Load() == 0 {
		t.Errorf("nothing was written")
	}
}

func writeAtRandom(t *testing.T, s *store.Store, seed uint64, written *atomic.Int64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	last := int64(0)
	for n := range 300 {
		ns, name := []string{"a", "b"}[rng.IntN(2)], fmt.Sprint("x", rng.IntN(12))
		v := fmt.Sprint(seed, "-", n)
		var ops []store.Op
		switch rng.IntN(4) {
		case 0:
			ops = append(ops, create(ns, name, v))
		case 1:
			ops = append(ops, remove(ns, name, 0))
		case 2:
			ops = append(ops, update(ns, name, v, 0), update(ns, "anchor", v, 0))
		case 3:
			ops = append(ops, update(ns, name, v, last))
		}
		rev, objs, err := s.Commit(t.Context(), ops...)
		if err != nil {
			if !refused(err) {
				t.Errorf("commit: %v", err)
			}
			continue
		}
		written.Add(1)
		if rev <= last {
			t.Errorf("revision %d after %d for one writer", rev, last)
		}
		last = rev
		// The write is visible to its writer: what is there is that or newer.
		if obj, ok := s.Get(ops[0].Key); ok && revision(t, obj) < revision(t, objs[0]) {
			t.Errorf("read %s at %s after it was written at %d", ops[0].Key, obj.GetResourceVersion(), rev)
		}
	}
}

func refused(err error) bool {
	return errors.Is(err, store.ErrExists) || errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrConflict)
}

func revision(t *testing.T, obj store.Object) int64 {
	rev, err := strconv.ParseInt(obj.GetResourceVersion(), 10, 64)
	if err != nil {
		t.Errorf("resourceVersion %q", obj.GetResourceVersion())
	}
	return rev
}

// follow keeps a copy of the namespace by list and watch.
func follow(ctx context.Context, t *testing.T, s *store.Store, ns string) {
	list, err := s.List("configmaps", ns, store.ListOptions{})
	if err != nil {
		t.Errorf("list: %v", err)
		return
	}
	state := map[string]string{}
	for _, obj := range list.Items {
		state[obj.GetNamespace()+"/"+obj.GetName()] = value(obj)
	}
	w, err := s.Watch("configmaps", ns, list.Revision)
	if err != nil {
		t.Errorf("watch from a list at %d: %v", list.Revision, err)
		return
	}
	last := list.Revision
	for {
		events, err := w.Next(ctx)
		if err != nil {
			if ctx.Err() == nil {
				t.Errorf("next: %v", err)
			}
			return
		}
		for _, ev := range events {
			if ev.Revision <= last || ev.Revision != revision(t, ev.Object) {
				t.Errorf("event at %d after %d, its object at %s", ev.Revision, last, ev.Object.GetResourceVersion())
			}
			last = ev.Revision
			replay(t, state, ev)
		}
		compare(t, s, ns, w.Progress(), state)
	}
}

func replay(t *testing.T, state map[string]string, ev store.Event) {
	name := ev.Key.Namespace + "/" + ev.Key.Name
	before, had := state[name]
	if had != (ev.Type != store.Added) || had && before != value(ev.Prev) {
		t.Errorf("event %s, but the state before was %q (%v)", summary(ev), before, had)
	}
	if ev.Type == store.Deleted {
		delete(state, name)
		return
	}
	state[name] = value(ev.Object)
}

func compare(t *testing.T, s *store.Store, ns string, rev int64, state map[string]string) {
	list, err := s.List("configmaps", ns, store.ListOptions{Revision: rev})
	if err != nil {
		t.Errorf("list at %d: %v", rev, err)
		return
	}
	checkState(t, rev, state, list)
}

func checkState(t *testing.T, rev int64, state map[string]string, list store.List) {
	var want []string
	for name, v := range state {
		want = append(want, name+"="+v)
	}
	slices.Sort(want)
	got := values(list)
	slices.Sort(got)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("followed to %d, list there (-followed +listed):\n%s", rev, d)
	}
}

// followIndex keeps a copy of what an index finds by list and watch.
func followIndex(ctx context.Context, t *testing.T, s *store.Store, prefix string) {
	match := func(obj store.Object) bool { return value(obj)[:1] == prefix }
	list, err := s.List("configmaps", "", store.ListOptions{Match: match})
	if err != nil {
		t.Errorf("list: %v", err)
		return
	}
	state := map[string]string{}
	for _, obj := range list.Items {
		state[obj.GetNamespace()+"/"+obj.GetName()] = value(obj)
	}
	w, err := s.WatchIndexed("configmaps", "value", prefix, list.Revision)
	if err != nil {
		t.Errorf("watch from a list at %d: %v", list.Revision, err)
		return
	}
	defer w.Stop()
	for {
		events, err := w.Next(ctx)
		if err != nil {
			if ctx.Err() == nil {
				t.Errorf("next: %v", err)
			}
			return
		}
		for _, ev := range events {
			name := ev.Key.Namespace + "/" + ev.Key.Name
			if delete(state, name); ev.Type != store.Deleted && match(ev.Object) {
				state[name] = value(ev.Object)
			}
		}
		rev := w.Progress()
		whole, err := s.List("configmaps", "", store.ListOptions{Revision: rev, Match: match})
		if err != nil {
			t.Errorf("list at %d: %v", rev, err)
			return
		}
		checkState(t, rev, state, whole)
	}
}

// pages lists page by page, and compares with the whole list of that revision.
func pages(ctx context.Context, t *testing.T, s *store.Store) {
	for ctx.Err() == nil {
		opts := store.ListOptions{Limit: 4}
		var got []string
		for {
			list, err := s.List("configmaps", "", opts)
			if err != nil {
				t.Errorf("page: %v", err)
				return
			}
			got = append(got, values(list)...)
			opts.After, opts.Revision = list.After, list.Revision
			if !list.More {
				break
			}
		}
		whole, err := s.List("configmaps", "", store.ListOptions{Revision: opts.Revision})
		if err != nil {
			t.Errorf("list at %d: %v", opts.Revision, err)
			return
		}
		if d := cmp.Diff(values(whole), got); d != "" {
			t.Errorf("pages at %d (-whole +pages):\n%s", opts.Revision, d)
		}
	}
}
