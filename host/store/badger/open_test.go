package badger

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/berth-dev/berth/host/store"
)

// A fault in a memory map, and a panic of Badger's, end what was asked for and
// not the process.
func TestFaultsAndPanicsBecomeErrors(t *testing.T) {
	t.Parallel()
	file, err := os.Create(filepath.Join(t.TempDir(), "cut"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	mapped, err := syscall.Mmap(int(file.Fd()), 0, 4096, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Munmap(mapped); err != nil {
			t.Error(err)
		}
	}()
	for name, tc := range map[string]struct {
		fn   func() error
		want error
	}{
		"a page that the disk does not give": {func() error { mapped[0] = 1; return nil }, store.ErrNoSpace},
		"a panic":                            {func() error { panic("slice bounds out of range") }, store.ErrCorrupt},
		"an error":                           {func() error { return store.ErrFormat }, store.ErrFormat},
		"nothing":                            {func() error { return nil }, nil},
	} {
		if err := guarded(tc.fn); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
}
