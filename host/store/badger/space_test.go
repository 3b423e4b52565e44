package badger

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/host/store"
)

func TestAFullDiskIsToldFromOtherRefusals(t *testing.T) {
	t.Parallel()
	full := refusal("d", errors.New("write d/KEYREGISTRY: no space left on device"))
	if !errors.Is(full, store.ErrNoSpace) || !strings.HasSuffix(full.Error(), ": free some of the disk") {
		t.Errorf("a full disk is %v", full)
	}
	if other := refusal("d", errors.New("manifest has bad magic")); errors.Is(other, store.ErrNoSpace) {
		t.Errorf("a broken manifest is %v", other)
	}
}

func TestFullDiskRefusesWrites(t *testing.T) {
	t.Parallel()
	e, err := Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	put := store.Batch{Revision: 2, Puts: []store.Record{{Key: "a", Value: []byte("1"), Revision: 2}}}
	drop := store.Batch{Revision: 3, Deletes: []string{"a"}}
	ending := store.Batch{Revision: 4, Puts: put.Puts, Frees: true}
	for _, tc := range []struct {
		name              string
		free              uint64
		unknown           error
		wantPut, wantDrop error
	}{
		{name: "room", free: reserve},
		{name: "little room", free: reserve - 1, wantPut: store.ErrNoSpace},
		{name: "no room", free: deleteReserve - 1, wantPut: store.ErrNoSpace, wantDrop: store.ErrNoSpace},
		{name: "unknown room", unknown: errors.New("no such disk"), wantPut: store.ErrNoSpace, wantDrop: store.ErrNoSpace},
		{name: "room again", free: reserve},
	} {
		e.space.free = func(string) (uint64, error) { return tc.free, tc.unknown }
		e.space.read = time.Time{}
		if err := e.Commit(t.Context(), put); !errors.Is(err, tc.wantPut) {
			t.Errorf("%s: put: %v, want %v", tc.name, err, tc.wantPut)
		}
		if err := e.Commit(t.Context(), drop); !errors.Is(err, tc.wantDrop) {
			t.Errorf("%s: delete: %v, want %v", tc.name, err, tc.wantDrop)
		}
		if err := e.Commit(t.Context(), ending); !errors.Is(err, tc.wantDrop) {
			t.Errorf("%s: a write of what is being deleted: %v, want %v", tc.name, err, tc.wantDrop)
		}
	}
}

func TestAStartOnAFullDiskIsRefusedInWords(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		free    uint64
		unknown error
		want    string
	}{
		{name: "room", free: startReserve},
		{name: "little room", free: 17 << 20, want: "no room to write: the disk of d has 17 MiB left, and a start takes 128: free some"},
		{name: "unknown room", unknown: errors.New("gone"), want: "no room to write: room on the disk of d is unknown: gone"},
	} {
		s := space{dir: "d", free: func(string) (uint64, error) { return tc.free, tc.unknown }}
		got := ""
		if err := s.start(); err != nil {
			got = err.Error()
			if !errors.Is(err, store.ErrNoSpace) {
				t.Errorf("%s: %v is not ErrNoSpace", tc.name, err)
			}
		}
		if got != tc.want {
			t.Errorf("%s: start() = %q, want %q", tc.name, got, tc.want)
		}
	}
}

// A disk that refuses must not keep a host from ending, nor cost what it
// acknowledged.
func TestADiskThatRefusesHoldsUpNoEnd(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "store")
	e, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	put := store.Batch{Revision: 2, Puts: []store.Record{{Key: "a", Value: []byte("1"), Revision: 2}}}
	if err := e.Commit(t.Context(), put); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir, dir+"-away"); err != nil {
		t.Fatal(err)
	}
	if err := e.closeWithin(10 * time.Millisecond); err == nil || !strings.Contains(err.Error(), "is not closed after 10ms: can "+dir+" be written") {
		t.Errorf("Close = %v", err)
	}
	if err := os.Rename(dir+"-away", dir); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Errorf("Close, once the disk takes it = %v", err)
	}
	again, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if revision, err := again.Scan(t.Context(), "a", false, func(store.Record) error { return nil }); revision != 2 || err != nil {
		t.Errorf("revision %d, %v", revision, err)
	}
}

func TestDiskFreeReadsTheDisk(t *testing.T) {
	t.Parallel()
	if free, err := diskFree(t.TempDir()); err != nil || free == 0 {
		t.Errorf("free = %d, %v", free, err)
	}
	if _, err := diskFree("/no/such/directory"); err == nil {
		t.Errorf("a directory that is not there has room")
	}
}
