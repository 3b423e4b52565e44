package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/host/store"
	"github.com/berth-dev/berth/host/store/storetest"
)

func key(name string) store.Key {
	return store.Key{Resource: "configmaps", Namespace: "ns", Name: name}
}

func object(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Data:       map[string]string{"value": value},
	}
}

func create(name, value string) store.Op {
	return store.Op{Kind: store.Create, Key: key(name), Object: object(name, value)}
}

func update(name, value string, expect int64) store.Op {
	return store.Op{Kind: store.Update, Key: key(name), Object: object(name, value), Expect: expect}
}

func remove(name string) store.Op { return store.Op{Kind: store.Delete, Key: key(name)} }

// gated is an engine whose commits wait for the test, or fail.
type gated struct {
	store.Engine
	gate   chan struct{} // each commit takes one token, if not nil
	limits *store.Limits

	mu      sync.Mutex
	batches []store.Batch
	fail    error
	full    bool // there is room for what frees some alone
}

func (g *gated) Commit(ctx context.Context, b store.Batch) error {
	if g.gate != nil {
		<-g.gate
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.fail != nil {
		return g.fail
	}
	if g.full && !b.Frees {
		return store.ErrNoSpace
	}
	g.batches = append(g.batches, b)
	return g.Engine.Commit(ctx, b)
}

func (g *gated) Limits() store.Limits {
	if g.limits != nil {
		return *g.limits
	}
	return g.Engine.Limits()
}

func (g *gated) committed() []store.Batch {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.batches)
}

// openGated opens a store and then closes the gate: the first commit waits in
// the engine, so what comes after it gathers in the queue, in order.
func openGated(t *testing.T) (*store.Store, *gated) {
	engine := &gated{Engine: store.NewMemory()}
	s := storetest.OpenEngine(t, engine)
	engine.gate = make(chan struct{}, 100)
	engine.batches = nil
	return s, engine
}

func closeStore(t testing.TB, s *store.Store) {
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

type outcome struct {
	rev int64
	err error
}

// queueUp commits each op from a goroutine of its own, one after another.
func queueUp(t *testing.T, s *store.Store, ops ...store.Op) []*outcome {
	outcomes := make([]*outcome, len(ops))
	for i, op := range ops {
		outcomes[i] = &outcome{}
		go func() { outcomes[i].rev, _, outcomes[i].err = s.Commit(t.Context(), op) }()
		synctest.Wait()
	}
	return outcomes
}

func TestOneBatchTakesManyCallersInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, engine := openGated(t)
		start := s.Revision()
		outcomes := queueUp(t, s,
			create("first", "1"), // goes alone
			create("x", "1"), create("x", "2"), update("x", "3", 0), remove("x"), update("x", "4", 0), create("x", "5"),
			create("y", "1"), remove("y"), create("z", "1"), update("z", "1", 0),
		)
		if len(engine.committed()) != 0 || s.Revision() != start {
			t.Fatalf("something was visible before it was durable")
		}
		engine.gate <- struct{}{}
		engine.gate <- struct{}{}
		synctest.Wait()
		want := []outcome{
			{start + 1, nil},
			{start + 2, nil}, {0, store.ErrExists}, {start + 3, nil}, {start + 4, nil}, {0, store.ErrNotFound}, {start + 5, nil},
			{start + 6, nil}, {start + 7, nil}, {start + 8, nil}, {start + 8, nil},
		}
		for i, got := range outcomes {
			if got.rev != want[i].rev || !errors.Is(got.err, want[i].err) {
				t.Errorf("op %d: revision %d, %v; want %d, %v", i, got.rev, got.err, want[i].rev, want[i].err)
			}
		}
		checkBatches(t, engine.committed(), start)
		checkEvents(t, s, start)
		stats := s.Stats()
		if stats.Batches != 2 || stats.Commits != 11 || stats.Changes != 8 || stats.BatchSizes[0] != 1 || stats.BatchSizes[3] != 1 {
			t.Errorf("stats = %+v", stats)
		}
	})
}

// What a creation requires is looked at in its turn, also within one batch.
func TestACreationRequiresAnObjectThatStays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, engine := openGated(t)
		within := func(name string) store.Op {
			op := create(name, "1")
			op.Requires = key("parent")
			return op
		}
		marked := update("parent", "2", 0)
		marked.Object.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
		outcomes := queueUp(t, s,
			create("first", "1"), // goes alone
			within("early"), create("parent", "1"), within("a"), update("parent", "2", 0), within("b"),
			marked, within("c"), remove("parent"), within("d"), create("parent", "1"), within("e"),
		)
		engine.gate <- struct{}{}
		engine.gate <- struct{}{}
		synctest.Wait()
		conflict := store.ErrConflict
		for i, want := range []error{nil, conflict, nil, nil, nil, nil, nil, conflict, nil, conflict, nil, nil} {
			if err := outcomes[i].err; !errors.Is(err, want) {
				t.Errorf("op %d: %v, want %v", i, err, want)
			}
		}
		var of *store.Error
		if !errors.As(outcomes[7].err, &of) || of.Key != key("parent") {
			t.Errorf("the conflict is %v, want it of the parent", outcomes[7].err)
		}
		for name, want := range map[string]bool{"early": false, "a": true, "b": true, "c": false, "d": false, "e": true} {
			if _, ok := s.Get(key(name)); ok != want {
				t.Errorf("%s is there: %v, want %v", name, ok, want)
			}
		}
		if batches := engine.committed(); len(batches) != 2 {
			t.Errorf("%d engine commits, want 2", len(batches))
		}
	})
}

func checkBatches(t *testing.T, batches []store.Batch, start int64) {
	t.Helper()
	if len(batches) != 2 {
		t.Fatalf("%d engine commits, want 2", len(batches))
	}
	var puts []string
	for _, rec := range batches[1].Puts {
		puts = append(puts, fmt.Sprintf("%q@%d", rec.Key, rec.Revision-start))
	}
	if d := cmp.Diff([]string{`"o/configmaps\x00ns\x00x"@5`, `"o/configmaps\x00ns\x00z"@8`}, puts); d != "" {
		t.Errorf("records of the batch (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"o/configmaps\x00ns\x00y"}, batches[1].Deletes); d != "" || batches[1].Revision != start+8 {
		t.Errorf("batch at %d (-want +got):\n%s", batches[1].Revision-start, d)
	}
}

func checkEvents(t *testing.T, s *store.Store, start int64) {
	t.Helper()
	w, err := s.Watch("configmaps", "", start+1)
	if err != nil {
		t.Fatal(err)
	}
	events, err := w.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, ev := range events {
		got = append(got, fmt.Sprint(ev.Type, ev.Key.Name, ev.Revision-start))
	}
	if d := cmp.Diff([]string{"0x2", "1x3", "2x4", "0x5", "0y6", "2y7", "0z8"}, got); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
}

func TestCallerWhoGivesUpWritesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, engine := openGated(t)
		first := queueUp(t, s, create("first", "1"))
		ctx, cancel := context.WithCancel(t.Context())
		var err error
		go func() { _, _, err = s.Commit(ctx, create("x", "1")) }()
		synctest.Wait()
		cancel()
		synctest.Wait()
		if !errors.Is(err, context.Canceled) {
			t.Errorf("commit: %v, want context.Canceled", err)
		}
		engine.gate <- struct{}{}
		synctest.Wait()
		if _, ok := s.Get(key("x")); ok || first[0].err != nil {
			t.Errorf("x was written after its caller had given up: %v; first: %v", ok, first[0].err)
		}
	})
}

func TestFailedEngineStopsWritesAndShowsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		engine := &gated{Engine: store.NewMemory()}
		s := storetest.OpenEngine(t, engine)
		if _, _, err := s.Commit(t.Context(), create("x", "1")); err != nil {
			t.Fatal(err)
		}
		rev := s.Revision()
		full := errors.New("disk is full")
		engine.mu.Lock()
		engine.fail = full
		engine.mu.Unlock()
		if _, _, err := s.Commit(t.Context(), create("y", "1")); !errors.Is(err, full) {
			t.Errorf("commit: %v, want %v", err, full)
		}
		engine.mu.Lock()
		engine.fail = nil
		engine.mu.Unlock()
		if _, _, err := s.Commit(t.Context(), create("z", "1")); !errors.Is(err, full) {
			t.Errorf("commit after the failure: %v, want %v still", err, full)
		}
		select {
		case <-s.Failed():
		default:
			t.Errorf("Failed is not closed")
		}
		if _, ok := s.Get(key("x")); !ok || s.Revision() != rev || !errors.Is(s.Err(), full) {
			t.Errorf("after the failure: read %v, revision %d of %d, Err %v", ok, s.Revision(), rev, s.Err())
		}
	})
}

func TestRefusingEngineIsAskedAgain(t *testing.T) {
	t.Parallel()
	engine := &gated{Engine: store.NewMemory()}
	s := storetest.OpenEngine(t, engine)
	rev := s.Revision()
	engine.fail = fmt.Errorf("%w: free some", store.ErrNoSpace)
	if _, _, err := s.Commit(t.Context(), create("x", "1")); !errors.Is(err, store.ErrNoSpace) {
		t.Errorf("commit: %v, want ErrNoSpace", err)
	}
	if _, ok := s.Get(key("x")); ok || s.Revision() != rev || s.Err() != nil {
		t.Errorf("after a refusal: read %v, revision %d of %d, Err %v", ok, s.Revision(), rev, s.Err())
	}
	engine.fail = nil
	if got := commit(t, s, create("x", "1")); got != rev+1 {
		t.Errorf("the next commit is at %d, want %d", got, rev+1)
	}
}

// On a full disk what deletes, or is being deleted, is written alone.
func TestAFullDiskTakesWhatFreesRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, engine := openGated(t)
		engine.gate <- struct{}{}
		commit(t, s, create("ends", "1"))
		engine.gate <- struct{}{}
		commit(t, s, create("gone", "1"))
		start := s.Revision()
		engine.full = true
		ending := update("ends", "2", 0)
		now := metav1.Now()
		ending.Object.SetDeletionTimestamp(&now)
		both := queueUp(t, s,
			create("first", "1"), // goes alone
			create("x", "1"), ending, update("gone", "2", 0), remove("gone"), create("gone", "3"),
		)
		for range 10 {
			engine.gate <- struct{}{}
		}
		synctest.Wait()
		want := []outcome{
			{0, store.ErrNoSpace},
			{0, store.ErrNoSpace}, {start + 1, nil}, {0, store.ErrNoSpace}, {start + 2, nil}, {0, store.ErrNoSpace},
		}
		for i, w := range want {
			if got := both[i]; got.rev != w.rev || !errors.Is(got.err, w.err) {
				t.Errorf("commit %d: %d, %v, want %d, %v", i, got.rev, got.err, w.rev, w.err)
			}
		}
		if _, held := s.Get(key("gone")); held {
			t.Error("what was deleted is there")
		}
	})
}

func TestBatchesAreCutToTheEnginesLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, engine := openGated(t)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		small := &gated{Engine: engine.Engine, limits: &store.Limits{Bytes: 1500, Records: 3}}
		s = storetest.OpenEngine(t, small)
		small.gate = make(chan struct{}, 100)
		small.batches = nil
		var ops []store.Op
		for i := range 20 {
			ops = append(ops, create(fmt.Sprint("x", i), "1"))
		}
		outcomes := queueUp(t, s, ops...)
		for range 40 {
			small.gate <- struct{}{}
		}
		synctest.Wait()
		for i, o := range outcomes {
			if o.err != nil {
				t.Errorf("commit %d: %v", i, o.err)
			}
		}
		for _, b := range small.committed() {
			if n := len(b.Puts); n == 0 || n > 3 {
				t.Errorf("a batch of %d records, the engine takes 3", n)
			}
		}
		if _, _, err := s.Commit(t.Context(), ops[:4]...); !errors.Is(err, store.ErrTooLarge) {
			t.Errorf("a commit of 4: %v, want ErrTooLarge", err)
		}
	})
}

func TestCloseAnswersWhatIsQueued(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, engine := openGated(t)
		outcomes := queueUp(t, s, create("taken", "1"), create("queued", "1"))
		go closeStore(t, s)
		synctest.Wait()
		engine.gate <- struct{}{}
		synctest.Wait()
		if outcomes[0].err != nil {
			t.Errorf("the commit that was being written: %v", outcomes[0].err)
		}
		if !errors.Is(outcomes[1].err, store.ErrClosed) {
			t.Errorf("the commit in the queue: %v, want ErrClosed", outcomes[1].err)
		}
	})
}
