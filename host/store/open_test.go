package store_test

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/berth-dev/berth/host/store"
	"github.com/berth-dev/berth/host/store/storetest"
)

func TestOpenRefusesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	const format = "f/format"
	good := store.Record{Key: format, Value: []byte("1"), Revision: 1}
	for name, tc := range map[string]struct {
		records []store.Record
		want    string
	}{
		"a later format":          {[]store.Record{{Key: format, Value: []byte("2")}}, `has format "2", this berth reads "1"`},
		"records without format":  {[]store.Record{{Key: "o/configmaps\x00ns\x00x"}}, "no store of berth"},
		"a restore that broke":    {[]store.Record{{Key: "f/restore", Value: []byte("running")}}, "did not finish"},
		"a damaged object":        {[]store.Record{good, {Key: "o/configmaps\x00ns\x00x", Value: []byte("?")}}, `record "o/configmaps\x00ns\x00x"`},
		"an object under no key":  {[]store.Record{good, {Key: "o/configmaps"}}, "not a key"},
		"an object of the future": {[]store.Record{good, {Key: "o/configmaps\x00ns\x00x", Value: encoded(t, "x"), Revision: 6}}, "of revision 6, the data is at 5"},
		"an object of other name": {[]store.Record{good, {Key: "o/configmaps\x00ns\x00x", Value: encoded(t, "y")}}, "holds ns/y"},
	} {
		engine := store.NewMemory()
		if err := engine.Commit(t.Context(), store.Batch{Revision: 5, Puts: tc.records}); err != nil {
			t.Fatal(err)
		}
		_, err := store.Open(t.Context(), engine, storetest.Codec{Scheme: scheme.Scheme}, store.Options{})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want …%s…", name, err, tc.want)
		}
	}
}

func encoded(t *testing.T, name string) []byte {
	data, err := storetest.Codec{Scheme: scheme.Scheme}.Encode(object(name, "1"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// failing gives up after some commits, as a crash does.
type failing struct {
	store.Engine
	left int
}

var errCrash = errors.New("crash")

func (f *failing) Commit(ctx context.Context, b store.Batch) error {
	if f.left--; f.left < 0 {
		return errCrash
	}
	return f.Engine.Commit(ctx, b)
}

func (f *failing) Limits() store.Limits { return store.Limits{Bytes: 300 << 10, Records: 100} }

func TestHalfABlobIsNeverSeenAndGoesAway(t *testing.T) {
	t.Parallel()
	data := bytes.Repeat([]byte("wasm"), 300<<10) // five chunks, a commit each, and the manifest
	for crashAfter := range 6 {
		memory := store.NewMemory()
		if err := storetest.OpenEngine(t, memory).Close(); err != nil {
			t.Fatal(err)
		}
		s := storetest.OpenEngine(t, &failing{Engine: memory, left: crashAfter})
		if err := s.PutBlob(t.Context(), "d", data); !errors.Is(err, errCrash) {
			t.Fatalf("put with a crash after %d commits: %v", crashAfter, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = storetest.OpenEngine(t, memory)
		if _, err := s.Blob(t.Context(), "d"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("after a crash at commit %d: %v, want ErrNotFound", crashAfter, err)
		}
		_, err := memory.Scan(t.Context(), "b/", true, func(rec store.Record) error {
			t.Errorf("after a crash at commit %d: %q was left", crashAfter, rec.Key)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.PutBlob(t.Context(), "d", data); err != nil {
			t.Errorf("put again: %v", err)
		}
		if got, err := s.Blob(t.Context(), "d"); err != nil || !bytes.Equal(got, data) {
			t.Errorf("read again: %d bytes, %v", len(got), err)
		}
	}
}

func TestDamagedBlobIsNotReturned(t *testing.T) {
	t.Parallel()
	engine := store.NewMemory()
	s := storetest.OpenEngine(t, engine)
	if err := s.PutBlob(t.Context(), "d", []byte("wasm")); err != nil {
		t.Fatal(err)
	}
	bent := store.Record{Key: "b/x/d/00000000", Value: []byte("wosm")}
	if err := engine.Commit(t.Context(), store.Batch{Puts: []store.Record{bent}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Blob(t.Context(), "d"); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("a damaged blob: %v", err)
	}
}

// FuzzRestore feeds a backup that anybody may have made. What is refused is
// never opened; what is taken opens, unless an object in it is not the codec's.
func FuzzRestore(f *testing.F) {
	s := storetest.Open(f)
	for _, op := range []store.Op{create("x", "1"), create("y", "2")} {
		if _, _, err := s.Commit(f.Context(), op); err != nil {
			f.Fatal(err)
		}
	}
	if err := s.PutBlob(f.Context(), "d", []byte("wasm")); err != nil {
		f.Fatal(err)
	}
	var backup bytes.Buffer
	if _, err := s.Backup(f.Context(), &backup); err != nil {
		f.Fatal(err)
	}
	f.Add(backup.Bytes())
	f.Add(backup.Bytes()[:40])
	f.Add([]byte("BERTHBAK\x00\x00\x00\x01\x02"))
	f.Fuzz(func(t *testing.T, data []byte) {
		engine := store.NewMemory()
		_, err := store.Restore(t.Context(), engine, bytes.NewReader(data))
		s, openErr := store.Open(t.Context(), engine, storetest.Codec{Scheme: scheme.Scheme}, store.Options{})
		if openErr == nil {
			defer closeStore(t, s)
			if err != nil && s.Revision() != 1 {
				t.Errorf("restore was refused (%v), and opened at %d", err, s.Revision())
			}
		}
	})
}

// FuzzRecord opens a store over one foreign record. What it takes it gives as it
// was written, at that revision and under that key only, and again when it is
// opened once more; an object that its key does not name is not taken.
func FuzzRecord(f *testing.F) {
	codec := storetest.Codec{Scheme: scheme.Scheme}
	good, err := codec.Encode(object("x", "1"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add("o/configmaps\x00ns\x00x", good, int64(7))
	f.Add("o/configmaps\x00ns\x00x", good, int64(10))
	f.Add("o/configmaps\x00\x00ns\x00x", good, int64(7))
	f.Add("o/configmaps\x00ns\x00x", []byte("v1 ConfigMap\n{}"), int64(7))
	f.Add("o/pods\x00\x00", []byte{}, int64(-1))
	f.Add("b/m/x", []byte("{}"), int64(0))
	f.Fuzz(func(t *testing.T, key string, value []byte, rev int64) {
		const revision = 9
		engine := store.NewMemory()
		puts := []store.Record{{Key: "f/format", Value: []byte("1")}, {Key: key, Value: value, Revision: rev}}
		if key == "f/format" {
			puts = puts[1:]
		}
		if err := engine.Commit(t.Context(), store.Batch{Revision: revision, Puts: puts}); err != nil {
			return
		}
		for range 2 { // the second time as the first has left it
			s, err := store.Open(t.Context(), engine, codec, store.Options{})
			if err != nil {
				return
			}
			if s.Revision() != revision {
				t.Errorf("the store opens at revision %d, want %d", s.Revision(), revision)
			}
			checkHolds(t, s, codec, key, value, rev)
			closeStore(t, s)
		}
	})
}

// checkHolds holds that a store has the object of that record, or none if it is
// not an object's.
func checkHolds(t *testing.T, s *store.Store, codec storetest.Codec, key string, value []byte, rev int64) {
	t.Helper()
	name, is := strings.CutPrefix(key, "o/")
	if !is {
		return
	}
	parts := strings.Split(name, "\x00")
	if len(parts) != 3 {
		t.Fatalf("it takes a record under the key %q", key)
	}
	list, err := s.List(parts[0], "", store.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("List = %d objects, %v; want the one of the record", len(list.Items), err)
	}
	want, err := codec.Decode("", value)
	if err != nil {
		t.Fatalf("it takes %q, which is no object: %v", value, err)
	}
	if want.GetNamespace() != parts[1] || want.GetName() != parts[2] {
		t.Fatalf("it takes an object %s/%s under the key %q", want.GetNamespace(), want.GetName(), key)
	}
	got, ok := s.Get(store.Key{Resource: parts[0], Namespace: parts[1], Name: parts[2]})
	if !ok {
		t.Fatalf("it lists an object that it does not get: %q", key)
	}
	if rev > s.Revision() {
		t.Errorf("it takes an object of revision %d, and is at %d", rev, s.Revision())
	}
	want.SetResourceVersion(strconv.FormatInt(rev, 10))
	for how, have := range map[string]store.Object{"gets": got, "lists": list.Items[0]} {
		if diff := cmp.Diff(want, have); diff != "" {
			t.Errorf("what it %s is not what was written (-want +got):\n%s", how, diff)
		}
	}
}
