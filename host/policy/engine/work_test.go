package engine

import (
	"os"
	"path/filepath"
	"testing"
)

// What a crash left goes at the next start, whatever number the process has that
// starts; what is in use stays, whoever uses it.
func TestLeftoversOfACrashGo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c, err := openCache(dir)
	check(t, err)
	used, err := c.work()
	check(t, err)
	left, err := c.work()
	check(t, err)
	check(t, os.WriteFile(filepath.Join(left.dir, "half"), []byte("an entry"), privateFile))
	check(t, left.lock.Close()) // as the kernel does when a process ends
	check(t, c.put("kept", []byte("an entry")))

	if _, err = openCache(dir); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{used.dir: true, left.dir: false, filepath.Join(dir, "kept"): true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s is there: %v, want %v", filepath.Base(path), err == nil, want)
		}
	}
	used.remove()
	if left := entriesOf(t, c); len(left) != 1 {
		t.Errorf("%v is left, want the entry", left)
	}
}

// Starts and loads at the same time do not take each other's folders.
func TestStartsLeaveLoadsAlone(t *testing.T) {
	t.Parallel()
	c, err := openCache(t.TempDir())
	check(t, err)
	ended := make(chan error)
	go func() {
		var failed error
		for range 500 {
			if err := removeLeftovers(c.dir); err != nil {
				failed = err
			}
		}
		ended <- failed
	}()
	for range 500 {
		w, err := c.work()
		check(t, err)
		check(t, os.WriteFile(filepath.Join(w.dir, "entry"), nil, privateFile))
		w.remove()
	}
	check(t, <-ended)
}
