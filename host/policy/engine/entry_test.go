package engine

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-dev/berth/host/policy/vet"
	"github.com/berth-dev/berth/host/policy/vet/wasmtest"
)

// TestNoByteOfAnEntryIsBelieved turns each byte of an entry, and cuts it at each:
// what is left is never taken for code, but where a function may begin elsewhere
// within it.
func TestNoByteOfAnEntryIsBelieved(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	out, report, err := vet.Rewrite(wasmtest.Policy().Bytes(), vet.Limits{})
	check(t, err)
	entry, err := e.entry(t.Context(), entryName(out, e.features), out, report.Functions)
	check(t, err)
	good := func(b []byte, functions int) bool { return checkEntry(b, e.version, functions) == nil }
	if !good(entry, report.Functions) {
		t.Fatal("an entry as it was made is refused")
	}
	if good(entry, report.Functions-1) || good(entry, report.Functions+1) || checkEntry(entry, e.version+"x", report.Functions) == nil {
		t.Error("an entry of other functions, or of another version, is taken")
	}
	offsets := len(entryMagic) + 1 + len(e.version) + 4
	code := offsets + 8*report.Functions + 8
	size := binary.LittleEndian.Uint64(entry[code-8:])
	for i := range entry {
		if good(entry[:i], report.Functions) {
			t.Fatalf("cut to %d of %d bytes, an entry is taken", i, len(entry))
		}
		if offsets <= i && i < code-8 {
			continue
		}
		spoilt := bytes.Clone(entry)
		if spoilt[i] ^= 0x80; good(spoilt, report.Functions) {
			t.Fatalf("with byte %d of %d turned, an entry is taken", i, len(entry))
		}
	}
	if good(append(bytes.Clone(entry), 0), report.Functions) {
		t.Error("with a byte more, an entry is taken")
	}
	for i := offsets; i < code-8; i += 8 {
		for at, want := range map[uint64]bool{size - 1: true, size: false, 1 << 63: false} {
			spoilt := bytes.Clone(entry)
			binary.LittleEndian.PutUint64(spoilt[i:], at)
			if good(spoilt, report.Functions) != want {
				t.Errorf("an entry with a function at %d of %d bytes of code is taken: %v, want %v", at, size, !want, want)
			}
		}
	}
}

func TestALinkIsNoCache(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	check(t, os.Symlink(dir, link))
	if _, err := openCache(link); err == nil || !strings.Contains(err.Error(), "is not a folder") {
		t.Errorf("openCache of a link = %v, want it refused", err)
	}
}

func TestWhatAChildLeavesIsOfBoundedSize(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "code")
	check(t, os.WriteFile(path, make([]byte, 10), privateFile))
	if b, err := takeOne(path, 10); err != nil || len(b) != 10 {
		t.Errorf("takeOne of 10 bytes of 10 = %d bytes, %v", len(b), err)
	}
	if _, err := takeOne(path, 9); err == nil {
		t.Error("takeOne of 10 bytes of 9 takes them")
	}
	check(t, os.Truncate(path, maxEntryBytes+1)) // of which the disk holds nothing
	if _, err := readPlain(path, func(os.FileInfo) bool { return true }); err == nil {
		t.Error("a file larger than any entry is read")
	}
}

// TestAFailureSaysWhatTheGuestWasAt asks a guest that keeps the number at an
// address, one that gives none, and some that give what is none.
func TestAFailureSaysWhatTheGuestWasAt(t *testing.T) {
	t.Parallel()
	const place = 1024
	failing := func(at []byte) *Module {
		p := wasmtest.Policy()
		p.Export("berth_filter", filterType, nil, wasmtest.I32Const(place), wasmtest.I32Const(42), wasmtest.Store32(0), wasmtest.Op(0))
		if at != nil {
			p.Export("berth_at", wasmtest.Sig(nil, wasmtest.I32), nil, at)
		}
		return load(t, newEngine(t), p.Bytes())
	}
	for name, c := range map[string]struct {
		at   []byte
		want int32
		bad  bool
	}{
		"it says where": {wasmtest.I32Const(place), 42, false},
		"it does not":   {nil, -1, false},
		"nowhere":       {wasmtest.I32Const(0), -1, true},
		"at the end":    {wasmtest.I32Const(vet.PageBytes - 4), -1, false},
		"beyond it":     {wasmtest.I32Const(vet.PageBytes - 3), -1, true},
	} {
		i := openModule(t, failing(c.at), OpenConfig{})
		if err := i.Watch(MaxBudget); (err != nil) != c.bad {
			t.Errorf("%s: Watch = %v", name, err)
		}
		if c.bad {
			continue
		}
		_, err := i.Call(FuncFilter, nil, MaxBudget)
		if f, ok := err.(*Failure); !ok || f.At != c.want {
			t.Errorf("%s: at %d (%v), want it at %d", name, f.At, ok, c.want)
		}
	}
}
