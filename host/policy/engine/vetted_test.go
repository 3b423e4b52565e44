package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/gob"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/host/policy/vet"
	"github.com/berth-dev/berth/host/policy/vet/wasmtest"
)

// TestWhatVetMadeIsKeptOrMadeAnew has the file hold another module than was
// vetted, which shows whether it is used.
func TestWhatVetMadeIsKeptOrMadeAnew(t *testing.T) {
	t.Parallel()
	wasm, key := wasmtest.Policy().Bytes(), loadKey{}
	key.sum = sha256.Sum256(wasm)
	want, report, err := vet.Rewrite(wasm, key.limits)
	check(t, err)
	other, _, err := vet.Rewrite(wasm, vet.Limits{MemoryBytes: 1 << 20})
	check(t, err)
	if bytes.Equal(want, other) {
		t.Fatal("the other module is no other")
	}
	tests := []struct {
		name  string
		spoil func(t *testing.T, path string, v vetted)
		want  []byte
	}{
		{"as it was left", func(*testing.T, string, vetted) {}, want},
		{"of this binary", func(t *testing.T, path string, v vetted) { v.Wasm = other; leave(t, path, v) }, other},
		{"of another binary", func(t *testing.T, path string, v vetted) { v.Wasm, v.Build = other, "another"; leave(t, path, v) }, want},
		{"of a binary without a name", func(t *testing.T, path string, v vetted) { v.Wasm, v.Build = other, ""; leave(t, path, v) }, want},
		{"gone", func(t *testing.T, path string, _ vetted) { check(t, os.Remove(path)) }, want},
		{"cut short", func(t *testing.T, path string, _ vetted) { check(t, os.Truncate(path, 100)) }, want},
		{"empty", func(t *testing.T, path string, _ vetted) { check(t, os.Truncate(path, 0)) }, want},
		{"that others may write", func(t *testing.T, path string, v vetted) {
			v.Wasm = other
			leave(t, path, v)
			check(t, os.Chmod(path, 0o666))
		}, want},
		{"with another module's sum", func(t *testing.T, path string, v vetted) {
			v.Wasm = other
			leave(t, path, v)
			b, err := os.ReadFile(path)
			check(t, err)
			b[0] ^= 1
			check(t, os.WriteFile(path, b, privateFile))
		}, want},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := newEngine(t)
			first, err := e.vetted(t.Context(), wasm, key)
			check(t, err)
			e.keep(key, first)
			path := filepath.Join(e.cache.dir, vettedName(key))
			if _, err := os.Stat(path); err != nil {
				t.Fatalf("nothing is kept: %v", err)
			}
			tt.spoil(t, path, *first)
			got, err := e.vetted(t.Context(), wasm, key)
			check(t, err)
			e.keep(key, got)
			if !bytes.Equal(got.Wasm, tt.want) {
				t.Error("it is another module than it should be")
			}
			if diff := cmp.Diff(report, got.Report); diff != "" {
				t.Errorf("the report (-want +got):\n%s", diff)
			}
			again, err := e.vetted(t.Context(), wasm, key)
			check(t, err)
			if !bytes.Equal(again.Wasm, tt.want) || e.cache.get(vettedName(key)) == nil {
				t.Error("afterwards it is not kept as it should be")
			}
		})
	}
}

// leave puts something in the cache as keep would.
func leave(t *testing.T, path string, v vetted) {
	t.Helper()
	var b bytes.Buffer
	check(t, gob.NewEncoder(&b).Encode(v))
	check(t, cache{dir: filepath.Dir(path), most: maxCacheBytes}.put(filepath.Base(path), b.Bytes()))
}

// TestBrokenDebugInformationIsReadOnce holds that a module whose debug information
// nobody can read does not take a child at each load.
func TestBrokenDebugInformationIsReadOnce(t *testing.T) {
	t.Parallel()
	m := wasmtest.Policy()
	for _, name := range []string{".debug_abbrev", ".debug_info", ".debug_line"} {
		m.Raw = append(m.Raw, wasmtest.Section(0, append(wasmtest.Name(name), bytes.Repeat([]byte{0xff}, 64)...)))
	}
	wasm := m.Bytes()
	var said bytes.Buffer
	e, err := New(t.Context(), Config{CacheDir: t.TempDir(), Log: slog.New(slog.NewTextHandler(&said, nil))})
	check(t, err)
	for range 2 {
		m, err := e.Load(t.Context(), wasm, vet.Limits{})
		check(t, err)
		m.Close()
	}
	if n := strings.Count(said.String(), "no source lines"); n != 1 {
		t.Errorf("it was tried %d times:\n%s", n, &said)
	}
}

func TestOtherLimitsAreVettedForThemselves(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	wasm := wasmtest.Policy().Bytes()
	most := uint32(0)
	for _, limits := range []vet.Limits{{}, {MemoryBytes: 1 << 20}, {}} {
		m, err := e.Load(context.Background(), wasm, limits)
		check(t, err)
		most = max(most, m.Report().MemoryMax)
		if limits.MemoryBytes > 0 && m.Report().MemoryMax*vet.PageBytes > 1<<20 {
			t.Errorf("with %d bytes allowed it may have %d pages", limits.MemoryBytes, m.Report().MemoryMax)
		}
		m.Close()
	}
	if most*vet.PageBytes <= 1<<20 {
		t.Errorf("without a limit it may have %d pages", most)
	}
}

func TestARefusedModuleLeavesNothing(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	crooked := wasmtest.Policy()
	crooked.Func("f", wasmtest.Sig(nil, wasmtest.I64), nil)
	for range 2 {
		for _, wasm := range [][]byte{[]byte("no module"), crooked.Bytes()} {
			if _, err := e.Load(context.Background(), wasm, vet.Limits{}); err == nil {
				t.Fatal("it is loaded")
			}
		}
	}
	left, err := os.ReadDir(e.cache.dir)
	check(t, err)
	if len(left) > 0 {
		t.Errorf("the cache holds %v", left)
	}
}
