package confine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestAChildMayUseNoFileButThoseItHasOpen confines one thread as a child confines
// all, and tries what a subverted compiler would. The thread ends with its goroutine.
func TestAChildMayUseNoFileButThoseItHasOpen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	check(t, os.WriteFile(secret, []byte("x"), 0o600))
	out, err := os.Create(filepath.Join(dir, "out"))
	check(t, err)
	defer out.Close()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good
		done <- tryFiles(secret, out)
	}()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func tryFiles(secret string, out *os.File) error {
	if _, _, e := syscall.RawSyscall(syscall.SYS_PRCTL, prSetNoNewPrivs, 1, 0); e != 0 {
		return e
	}
	rules, err := landlock()
	if err != nil {
		return err
	}
	if rules < 0 {
		return nil // a kernel without Landlock: the other limits stay
	}
	defer syscall.Close(rules)
	if _, _, e := syscall.RawSyscall(sysLandlockApply, uintptr(rules), 0, 0); e != 0 {
		return e
	}
	if _, err := out.WriteString("code"); err != nil {
		return fmt.Errorf("it cannot write to the file that it has open: %w", err)
	}
	_, read := os.ReadFile(secret)
	_, list := os.ReadDir(filepath.Dir(secret))
	for what, err := range map[string]error{
		"read":         read,
		"list":         list,
		"write":        os.WriteFile(secret, nil, 0o600),
		"make":         os.WriteFile(secret+".new", nil, 0o600),
		"open anew":    os.WriteFile(out.Name(), nil, 0o600),
		"make beneath": os.Mkdir(secret+".d", 0o700),
		"remove":       os.Remove(secret),
		"move":         os.Rename(out.Name(), secret),
		"link":         os.Link(out.Name(), secret+".link"),
		"point to":     os.Symlink(secret, secret+".way"),
	} {
		if !errors.Is(err, fs.ErrPermission) && !errors.Is(err, syscall.EXDEV) {
			return fmt.Errorf("it may %s a file: %v", what, err)
		}
	}
	return nil
}
