package apiserver

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
	suite "k8s.io/apiserver/pkg/storage/testing"

	"github.com/berth-dev/berth/host/store"
	"github.com/berth-dev/berth/host/store/badger"
)

func open(t *testing.T) *adapter {
	t.Helper()
	engine, err := badger.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.Context(), engine, codec{}, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return &adapter{store: s}
}

// compact forgets what is before the revision, as etcd's compaction does.
func (a *adapter) compact(_ context.Context, t *testing.T, revision string) {
	rev, err := strconv.ParseInt(revision, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.store.Compact(rev); err != nil {
		t.Fatal(err)
	}
	a.compacted = rev
}

// increase moves the revision on by a write to another resource.
func (a *adapter) increase(ctx context.Context, t *testing.T) int64 {
	k := store.Key{Resource: "others", Name: fmt.Sprint("x", a.store.Revision())}
	rev, _, err := a.store.Commit(ctx, store.Op{Kind: store.Create, Key: k, Object: keep(k, &example.Pod{})})
	if err != nil {
		t.Fatal(err)
	}
	return rev
}

func stored(a *adapter) suite.KeyValidation {
	return func(_ context.Context, t *testing.T, key string) {
		obj, ok := a.store.Get(split(key))
		if !ok {
			t.Fatalf("nothing at %s", key)
		}
		if pod := obj.(*keyedPod).Pod; pod.ResourceVersion != "" || pod.SelfLink != "" {
			t.Errorf("stored with version %q and link %q", pod.ResourceVersion, pod.SelfLink)
		}
	}
}

// simple are the tests that need nothing but a storage.
var simple = map[string]func(context.Context, *testing.T, storage.Interface){
	"create with key exist":                 suite.RunTestCreateWithKeyExist,
	"get":                                   suite.RunTestGet,
	"unconditional delete":                  suite.RunTestUnconditionalDelete,
	"conditional delete":                    suite.RunTestConditionalDelete,
	"delete with suggestion":                suite.RunTestDeleteWithSuggestion,
	"delete with suggestion and conflict":   suite.RunTestDeleteWithSuggestionAndConflict,
	"delete with conflict":                  suite.RunTestDeleteWithConflict,
	"delete with suggestion of deleted":     suite.RunTestDeleteWithSuggestionOfDeletedObject,
	"validate deletion with suggestion":     suite.RunTestValidateDeletionWithSuggestion,
	"validate deletion with only":           suite.RunTestValidateDeletionWithOnlySuggestionValid,
	"preconditional delete with suggestion": suite.RunTestPreconditionalDeleteWithSuggestion,
	"preconditional delete with only":       suite.RunTestPreconditionalDeleteWithOnlySuggestionPass,
	"get list recursive prefix":             suite.RunTestGetListRecursivePrefix,
	"guaranteed update with conflict":       suite.RunTestGuaranteedUpdateWithConflict,
	"guaranteed update with suggestion":     suite.RunTestGuaranteedUpdateWithSuggestionAndConflict,
	"list paging":                           suite.RunTestListPaging,
	"namespace scoped list":                 suite.RunTestNamespaceScopedList,
	"watch":                                 suite.RunTestWatch,
	"delete trigger watch":                  suite.RunTestDeleteTriggerWatch,
	"watch from non-zero":                   suite.RunTestWatchFromNonZero,
	"delayed watch delivery":                suite.RunTestDelayedWatchDelivery,
	"watch context cancel":                  suite.RunTestWatchContextCancel,
	"watcher timeout":                       suite.RunTestWatcherTimeout,
	"watch delete has the latest revision":  suite.RunTestWatchDeleteEventObjectHaveLatestRV,
	"watch initialization signal":           suite.RunTestWatchInitializationSignal,
	"cluster scoped watch":                  suite.RunTestClusterScopedWatch,
	"namespace scoped watch":                suite.RunTestNamespaceScopedWatch,
	"send initial events compatibility":     suite.RunSendInitialEventsBackwardCompatibility,
	"watch semantics":                       suite.RunWatchSemantics,
	"watch semantics of initial events":     suite.RunWatchSemanticInitialEventsExtended,
	"watch list match single":               suite.RunWatchListMatchSingle,
}

func TestStorage(t *testing.T) {
	for name, test := range simple {
		t.Run(name, func(t *testing.T) { test(t.Context(), t, open(t)) })
	}
	with := func(name string, test func(context.Context, *testing.T, *adapter)) {
		t.Run(name, func(t *testing.T) { test(t.Context(), t, open(t)) })
	}
	with("create", func(ctx context.Context, t *testing.T, a *adapter) { suite.RunTestCreate(ctx, t, a, stored(a)) })
	with("get list non-recursive", func(ctx context.Context, t *testing.T, a *adapter) {
		suite.RunTestGetListNonRecursive(ctx, t, a.increase, a)
	})
	with("list continuation", func(ctx context.Context, t *testing.T, a *adapter) {
		suite.RunTestListContinuation(ctx, t, a, uncounted)
	})
	with("list pagination of rare objects", func(ctx context.Context, t *testing.T, a *adapter) {
		suite.RunTestListPaginationRareObject(ctx, t, a, uncounted)
	})
	with("list continuation with filter", func(ctx context.Context, t *testing.T, a *adapter) {
		suite.RunTestListContinuationWithFilter(ctx, t, a, uncounted)
	})
	with("list inconsistent continuation", func(ctx context.Context, t *testing.T, a *adapter) {
		suite.RunTestListInconsistentContinuation(ctx, t, a, a.compact)
	})
	with("consistent list", func(ctx context.Context, t *testing.T, a *adapter) {
		suite.RunTestConsistentList(ctx, t, a, a.increase, false, true, false)
	})
	with("compact revision", func(ctx context.Context, t *testing.T, a *adapter) {
		suite.RunTestCompactRevision(ctx, t, a, a.increase, a.compact)
	})
	with("watch from zero", func(ctx context.Context, t *testing.T, a *adapter) {
		suite.RunTestWatchFromZero(ctx, t, a, a.compact)
	})
	with("watch dispatch of bookmarks", func(ctx context.Context, t *testing.T, a *adapter) {
		suite.RunTestWatchDispatchBookmarkEvents(ctx, t, a, false)
	})
	with("list", func(ctx context.Context, t *testing.T, a *adapter) {
		suite.RunTestList(ctx, t, a, func(ctx context.Context, t *testing.T, revision string) {
			a.compact(ctx, t, revision)
			a.increase(ctx, t) // etcd's compaction leaves a record of itself
		}, false, nil)
	})
}

// uncounted stands where the suite counts etcd's calls.
func uncounted(*testing.T, uint64, uint64) {}

var _ metav1.Object = &keyedPod{}
