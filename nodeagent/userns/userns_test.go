package userns

import (
	"os"
	"path/filepath"
	"testing"
)

func open(t *testing.T, root string) *Ranges {
	t.Helper()
	r, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func take(t *testing.T, r *Ranges, uid string) Range {
	t.Helper()
	one, err := r.Take(uid)
	if err != nil {
		t.Fatal(err)
	}
	if err := one.check(); err != nil {
		t.Errorf("pod %s: %v", uid, err)
	}
	return one
}

func TestEachPodHasIdsOfItsOwnAndKeepsThem(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	r := open(t, root)
	r.random = func(int) int { return 7 } // so that they would collide
	a, b := take(t, r, "a"), take(t, r, "b")
	if a == b || take(t, r, "a") != a {
		t.Errorf("pods have %v and %v", a, b)
	}
	again := open(t, root)
	again.random = r.random
	if take(t, again, "a") != a || take(t, again, "b") != b {
		t.Errorf("after a restart: %v", again.byPod)
	}
	if c := take(t, again, "c"); c == a || c == b {
		t.Errorf("a third pod has %v as well", c)
	}
}

func TestIdsAreFreeAfterTheirPod(t *testing.T) {
	t.Parallel()
	r := open(t, t.TempDir())
	r.random = func(n int) int { return n - 1 } // the last slot: the search goes round
	a := take(t, r, "a")
	b := take(t, r, "b")
	if b.First != Length {
		t.Errorf("after the last range comes %v, want the first", b)
	}
	r.Release("a")
	r.Release("absent")
	if c := take(t, r, "c"); c != a {
		t.Errorf("a free range was not used: %v, want %v", c, a)
	}
}

func TestMachineWithoutFreeIdsSaysSo(t *testing.T) {
	t.Parallel()
	r := open(t, t.TempDir())
	for slot := uint32(firstSlot); slot < endSlot; slot++ {
		r.taken[slot] = true
	}
	if _, err := r.Take("a"); err == nil || err.Error() != "could not find an empty slot to allocate a user namespace" {
		t.Errorf("Take: %v", err)
	}
}

func TestBrokenFileIsToldOf(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"no JSON": "x", "the machine's own ids": `{"first":0,"length":65536}`, "another length": `{"first":65536,"length":5}`,
		"between two": `{"first":65537,"length":65536}`, "no id": `{"first":4294901760,"length":65536}`,
	} {
		root := t.TempDir()
		if err := os.MkdirAll(filepath.Join(root, "a"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, "a", file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if r, err := Open(root); err == nil || len(r.byPod) != 0 {
			t.Errorf("%s: %v, %v", name, r.byPod, err)
		}
	}
}
