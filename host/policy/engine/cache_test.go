package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/berth-dev/berth/host/policy/vet"
	"github.com/berth-dev/berth/host/policy/vet/wasmtest"
)

func load(tb testing.TB, e *Engine, wasm []byte) *Module {
	tb.Helper()
	m, err := e.Load(context.Background(), wasm, vet.Limits{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(m.Close)
	return m
}

// entries are the compiled modules in an engine's cache.
func entries(t *testing.T, e *Engine) []string {
	t.Helper()
	return entriesOf(t, e.cache)
}

func entriesOf(t *testing.T, c cache) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(c.dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(files, isVetted)
}

func isVetted(path string) bool { return strings.HasPrefix(filepath.Base(path), vettedPrefix) }

func TestCompiledCodeIsKeptOrMadeAnew(t *testing.T) {
	t.Parallel()
	wasm := wasmtest.Policy().Bytes()
	tests := []struct {
		name  string
		spoil func(t *testing.T, path string)
		anew  int64
	}{
		{"an entry as it was left", func(*testing.T, string) {}, 0},
		{"an entry that is gone", func(t *testing.T, path string) { check(t, os.Remove(path)) }, 1},
		{"an entry cut short", func(t *testing.T, path string) { check(t, os.Truncate(path, 50)) }, 1},
		{"an empty entry", func(t *testing.T, path string) { check(t, os.Truncate(path, 0)) }, 1},
		{"an entry with a bit turned", func(t *testing.T, path string) {
			b, err := os.ReadFile(path)
			check(t, err)
			b[len(b)/2] ^= 1
			check(t, os.WriteFile(path, b, 0o600))
		}, 1},
		{"an entry of another version, with its sum right", func(t *testing.T, path string) {
			b, err := os.ReadFile(path)
			check(t, err)
			entry := bytes.Replace(b[sha256.Size:], []byte("WAZEVO"), []byte("WAZEVA"), 1)
			sum := sha256.Sum256(entry)
			check(t, os.WriteFile(path, append(sum[:], entry...), 0o600))
		}, 1},
		{"a link in place of an entry", func(t *testing.T, path string) {
			check(t, os.Remove(path))
			check(t, os.Symlink("/etc/hostname", path))
		}, 1},
		{"a pipe in place of an entry", func(t *testing.T, path string) {
			check(t, os.Remove(path))
			check(t, syscall.Mkfifo(path, 0o600))
		}, 1},
		{"a folder in place of an entry", func(t *testing.T, path string) {
			check(t, os.Remove(path))
			check(t, os.MkdirAll(filepath.Join(path, "within"), 0o700))
		}, 1},
		{"an entry that others may write", func(t *testing.T, path string) { check(t, os.Chmod(path, 0o666)) }, 1},
		{"an entry that is a program", func(t *testing.T, path string) { check(t, os.Chmod(path, 0o700)) }, 1},
		{"an entry of another user", func(t *testing.T, path string) {
			if os.Geteuid() == 0 { // nobody else can make one
				check(t, os.Chown(path, 12345, 12345))
				return
			}
			check(t, os.Remove(path))
		}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			first, err := New(context.Background(), Config{CacheDir: dir})
			check(t, err)
			m, err := first.Load(context.Background(), wasm, vet.Limits{})
			check(t, err)
			m.Close()
			if got := first.Compiled(); got != 1 {
				t.Fatalf("the first load compiled %d times, want once", got)
			}
			left := entries(t, first)
			if len(left) != 1 {
				t.Fatalf("the cache holds %v, want one entry", left)
			}
			tt.spoil(t, left[0])
			second, err := New(context.Background(), Config{CacheDir: dir})
			check(t, err)
			load(t, second, wasm)
			if got := second.Compiled(); got != tt.anew {
				t.Errorf("it compiled %d times, want %d", got, tt.anew)
			}
			if second.cache.get(filepath.Base(left[0])) == nil || len(entries(t, second)) != 1 {
				t.Errorf("the cache holds %v afterwards, want the entry as it should be", entries(t, second))
			}
		})
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// script is a child that does something else than it should.
func script(t *testing.T, text string) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "child")
	check(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700))
	return []string{"/bin/sh", path}
}

func TestASubvertedCompilerIsNotBelieved(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, script, says string }{
		{"it leaves nothing", "exit 0", "broken"},
		{"it leaves rubbish", "echo x", "broken"},
		{"it leaves an entry under another name", "echo x > another; rm $NAME", "something else"},
		{"it leaves two entries", "echo x > another", "something else"},
		{"it leaves a folder", "mkdir elsewhere", "something else"},
		{"it leaves a folder in its code's place", "rm $NAME; mkdir $NAME", "broken"},
		{"it leaves a link in its code's place", "ln -sf /etc/hostname $NAME", "too many levels"},
		{"it leaves a pipe in its code's place", "rm $NAME; mkfifo $NAME", "broken"},
		{"it fails", "echo no such opcode >&2; exit 3", "no such opcode"},
		{"it floods its error output", "yes | head -c 1000000 >&2; exit 3", "compiler refuses"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := newEngine(t)
			wasm := wasmtest.Policy().Bytes()
			out, _, err := vet.Rewrite(wasm, vet.Limits{})
			check(t, err)
			text := strings.ReplaceAll(tt.script, "$NAME", entryName(out, e.features))
			e.child = script(t, "PATH=/usr/bin:/bin\n"+text)
			_, err = e.Load(context.Background(), wasm, vet.Limits{})
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Fatalf("Load = %v, want an error that says %q", err, tt.says)
			}
			if left := entries(t, e); len(left) != 0 {
				t.Errorf("the cache holds %v, want nothing", left)
			}
		})
	}
}

func TestTheChildSeesNothingOfItsHost(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	e.child = script(t, "env >&2; exit 1")
	_, err := e.Load(context.Background(), wasmtest.Policy().Bytes(), vet.Limits{})
	if err == nil || strings.Contains(err.Error(), "HOME=") || strings.Contains(err.Error(), "USER=") {
		t.Errorf("Load = %v, want a failure without the host's environment", err)
	}
}

func TestLoadsOfOneModuleShareTheWork(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	wasm := wasmtest.Policy().Bytes()
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			m, err := e.Load(context.Background(), wasm, vet.Limits{})
			if err != nil {
				t.Error(err)
				return
			}
			defer m.Close()
			i, err := m.Open(context.Background(), OpenConfig{})
			if err != nil {
				t.Error(err)
				return
			}
			i.Close()
		})
	}
	group.Wait()
	if got := e.Compiled(); got != 1 {
		t.Errorf("it compiled %d times, want once", got)
	}
	if len(e.loaded) != 0 || len(e.loading) != 0 {
		t.Errorf("%d modules are still held, %d are loading, though all are closed", len(e.loaded), len(e.loading))
	}
}

func TestALoadThatIsGivenUpLeavesTheOthers(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	wasm := wasmtest.Policy().Bytes()
	if _, err := e.Load(ctx, wasm, vet.Limits{}); !errors.Is(err, context.Canceled) {
		t.Fatalf("Load = %v, want it cancelled", err)
	}
	load(t, e, wasm)
}

func TestTheCacheBelongsToItsUserAlone(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "cache")
	check(t, os.Mkdir(dir, 0o755))
	if _, err := New(context.Background(), Config{CacheDir: dir}); err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(dir)
	check(t, err)
	if st.Mode().Perm() != 0o700 {
		t.Errorf("the cache's mode is %v, want 0700", st.Mode())
	}
	file := filepath.Join(t.TempDir(), "file")
	check(t, os.WriteFile(file, nil, 0o600))
	if _, err := New(context.Background(), Config{CacheDir: file}); err == nil {
		t.Error("a file serves as a cache")
	}
	if os.Geteuid() == 0 {
		check(t, os.Chown(dir, 12345, 12345))
		if _, err := New(context.Background(), Config{CacheDir: dir}); err == nil || !strings.Contains(err.Error(), "belongs to user 12345") {
			t.Errorf("New over another user's folder = %v, want it refused", err)
		}
	}
}

func TestTheCacheDoesNotGrowWithoutEnd(t *testing.T) {
	t.Parallel()
	c, err := openCache(t.TempDir())
	check(t, err)
	c.most = 3 << 10
	entry := make([]byte, 1<<10-sha256.Size)
	old := time.Now().Add(-time.Hour)
	for i, name := range []string{"used", "idle", "newer"} {
		check(t, c.put(name, entry))
		at := old.Add(time.Duration(i) * time.Minute)
		check(t, os.Chtimes(filepath.Join(c.dir, name), at, at))
	}
	if c.get("used") == nil {
		t.Fatal("an entry is gone though there is room")
	}
	check(t, c.put("newest", entry))
	for name, want := range map[string]bool{"used": true, "idle": false, "newer": true, "newest": true} {
		if got := c.get(name) != nil; got != want {
			t.Errorf("entry %s is there: %v, want %v", name, got, want)
		}
	}
	c.most = 10
	check(t, c.put("large", entry))
	if c.get("large") == nil || len(entriesOf(t, c)) != 1 {
		t.Errorf("%v is left, want the entry that was just made", entriesOf(t, c))
	}
}

func FuzzCheckEntry(f *testing.F) {
	good := append([]byte("WAZEVO\x031.0\x01\x00\x00\x00"), make([]byte, 8)...)
	good = append(good, 4, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4)
	f.Add(good, 1)
	f.Fuzz(func(t *testing.T, b []byte, functions int) {
		if functions < 0 || functions > 1<<20 {
			return
		}
		if err := checkEntry(b, "1.0", functions); err == nil && len(b) < 8*functions {
			t.Errorf("an entry of %d bytes passes for %d functions", len(b), functions)
		}
	})
}
