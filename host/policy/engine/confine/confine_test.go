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

// TestAChildSeesItsFolderAlone confines one thread as a child confines all, and
// tries what a subverted compiler would. The thread ends with its goroutine.
func TestAChildSeesItsFolderAlone(t *testing.T) {
	t.Parallel()
	own, other := t.TempDir(), t.TempDir()
	secret := filepath.Join(other, "secret")
	check(t, os.WriteFile(secret, []byte("x"), 0o600))
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good
		done <- tryOutside(own, secret)
	}()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func tryOutside(own, secret string) error {
	if _, _, e := syscall.RawSyscall(syscall.SYS_PRCTL, prSetNoNewPrivs, 1, 0); e != 0 {
		return e
	}
	rules, err := landlock(own)
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
	if err := os.WriteFile(filepath.Join(own, "code"), []byte("x"), 0o600); err != nil {
		return fmt.Errorf("it cannot write into its own folder: %w", err)
	}
	_, read := os.ReadFile(secret)
	_, list := os.ReadDir(filepath.Dir(secret))
	for what, err := range map[string]error{
		"read":   read,
		"list":   list,
		"write":  os.WriteFile(secret, nil, 0o600),
		"make":   os.Mkdir(secret+".d", 0o700),
		"remove": os.Remove(secret),
		"move":   os.Rename(filepath.Join(own, "code"), secret),
	} {
		if !errors.Is(err, fs.ErrPermission) && !errors.Is(err, syscall.EXDEV) {
			return fmt.Errorf("it may %s what is not its own: %v", what, err)
		}
	}
	return nil
}
