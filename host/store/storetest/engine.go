package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/host/store"
)

// Engine runs the suite that every engine passes. reopen returns an engine over
// the same data at each call, after the one before was closed.
func Engine(t *testing.T, engine func(t *testing.T) (reopen func() store.Engine)) {
	for name, test := range engineTests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, engine(t))
		})
	}
}

var engineTests = map[string]func(t *testing.T, reopen func() store.Engine){
	"an empty engine has nothing":             testEngineEmpty,
	"records come back in order":              testEngineOrder,
	"a batch outlives the engine":             testEngineDurable,
	"a scan sees one moment":                  testEngineMoment,
	"the largest batch is taken":              testEngineLimits,
	"a scan ends with its context or its fn":  testEngineStops,
	"compaction loses nothing that is newest": testEngineCompact,
}

func record(key, value string, rev int64) store.Record {
	return store.Record{Key: key, Value: []byte(value), Revision: rev}
}

func commit(t *testing.T, e store.Engine, b store.Batch) {
	t.Helper()
	if err := e.Commit(t.Context(), b); err != nil {
		t.Fatalf("commit: %v", err)
	}
}

func scan(t *testing.T, e store.Engine, prefix string, keysOnly bool) (records []store.Record, rev int64) {
	t.Helper()
	rev, err := e.Scan(t.Context(), prefix, keysOnly, func(rec store.Record) error {
		records = append(records, rec)
		return nil
	})
	if err != nil {
		t.Fatalf("scan %q: %v", prefix, err)
	}
	return records, rev
}

func checkScan(t *testing.T, e store.Engine, prefix string, wantRev int64, want ...store.Record) {
	t.Helper()
	got, rev := scan(t, e, prefix, false)
	if rev != wantRev {
		t.Errorf("scan %q: revision %d, want %d", prefix, rev, wantRev)
	}
	if d := cmp.Diff(want, got, cmp.Comparer(bytes.Equal)); d != "" {
		t.Errorf("scan %q (-want +got):\n%s", prefix, d)
	}
}

func closeEngine(t *testing.T, e store.Engine) {
	t.Helper()
	if err := e.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

func testEngineEmpty(t *testing.T, reopen func() store.Engine) {
	e := reopen()
	defer closeEngine(t, e)
	checkScan(t, e, "", 0)
}

func testEngineOrder(t *testing.T, reopen func() store.Engine) {
	e := reopen()
	defer closeEngine(t, e)
	commit(t, e, store.Batch{Revision: 5, Puts: []store.Record{
		record("o/b\x00x", "2", 5), record("o/a", "", 4), record("o/a\xff", "high", 5), record("p", "other", 5),
	}})
	commit(t, e, store.Batch{Puts: []store.Record{record("o/a", "new", 9)}, Deletes: []string{"p", "never there"}})
	checkScan(t, e, "o/", 5, record("o/a", "new", 9), record("o/a\xff", "high", 5), record("o/b\x00x", "2", 5))
	checkScan(t, e, "p", 5)
	keys, _ := scan(t, e, "o/b", true)
	if len(keys) != 1 || keys[0].Key != "o/b\x00x" || len(keys[0].Value) != 0 {
		t.Errorf("keys only: %v", keys)
	}
}

func testEngineDurable(t *testing.T, reopen func() store.Engine) {
	e := reopen()
	commit(t, e, store.Batch{Revision: 2, Puts: []store.Record{record("a", "1", 2), record("b", "1", 2)}})
	commit(t, e, store.Batch{Revision: 3, Deletes: []string{"a"}})
	large := record("large", string(pattern(3<<20)), 3)
	commit(t, e, store.Batch{Puts: []store.Record{large}})
	closeEngine(t, e)
	e = reopen()
	defer closeEngine(t, e)
	checkScan(t, e, "", 3, record("b", "1", 2), large)
}

func testEngineMoment(t *testing.T, reopen func() store.Engine) {
	e := reopen()
	defer closeEngine(t, e)
	b := store.Batch{Revision: 2}
	for i := range 500 {
		b.Puts = append(b.Puts, record(fmt.Sprintf("k%03d", i), "old", 2))
	}
	commit(t, e, b)
	n := 0
	rev, err := e.Scan(t.Context(), "k", false, func(rec store.Record) error {
		if n++; n == 1 {
			commit(t, e, store.Batch{Revision: 3, Puts: []store.Record{record("k499", "new", 3), record("k9", "new", 3)}, Deletes: []string{"k100"}})
		}
		if string(rec.Value) != "old" {
			t.Errorf("the scan saw %s=%s, written after its begin", rec.Key, rec.Value)
		}
		return nil
	})
	if err != nil || rev != 2 || n != 500 {
		t.Errorf("scan: %d records at revision %d, %v; want 500 at 2", n, rev, err)
	}
}

func testEngineLimits(t *testing.T, reopen func() store.Engine) {
	e := reopen()
	defer closeEngine(t, e)
	limits := e.Limits()
	const n = 10
	each := limits.Bytes/n - len("k0") - store.RecordOverhead
	b := store.Batch{Revision: 2}
	for i := range n {
		b.Puts = append(b.Puts, record(fmt.Sprint("k", i), string(pattern(each)), 2))
	}
	commit(t, e, b)
	small := store.Batch{Revision: 3}
	for i := range limits.Records {
		small.Puts = append(small.Puts, record(fmt.Sprintf("s%07d", i), "", 3))
		if (i+1)*(8+store.RecordOverhead) > limits.Bytes {
			break
		}
	}
	small.Puts = small.Puts[:len(small.Puts)-1]
	commit(t, e, small)
	if got, _ := scan(t, e, "s", true); len(got) != len(small.Puts) {
		t.Errorf("%d of %d small records", len(got), len(small.Puts))
	}
	if got, _ := scan(t, e, "k", false); len(got) != n || len(got[n-1].Value) != each {
		t.Errorf("%d of %d large records", len(got), n)
	}
}

func testEngineStops(t *testing.T, reopen func() store.Engine) {
	e := reopen()
	defer closeEngine(t, e)
	commit(t, e, store.Batch{Revision: 2, Puts: []store.Record{record("a", "", 2), record("b", "", 2)}})
	stop := errors.New("stop")
	calls := 0
	_, err := e.Scan(t.Context(), "", false, func(store.Record) error { calls++; return stop })
	if !errors.Is(err, stop) || calls != 1 {
		t.Errorf("scan went on for %d calls: %v", calls, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Scan(ctx, "", false, func(store.Record) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled scan: %v", err)
	}
	if err := e.Commit(ctx, store.Batch{Revision: 3}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled commit: %v", err)
	}
	checkScan(t, e, "", 2, record("a", "", 2), record("b", "", 2))
}

func testEngineCompact(t *testing.T, reopen func() store.Engine) {
	e := reopen()
	defer closeEngine(t, e)
	for i := range int64(8) {
		commit(t, e, store.Batch{Revision: i + 1, Puts: []store.Record{record("a", string(pattern(2<<20+int(i))), i+1)}})
	}
	if err := e.Compact(t.Context()); err != nil {
		t.Errorf("compact: %v", err)
	}
	checkScan(t, e, "", 8, record("a", string(pattern(2<<20+7)), 8))
}
