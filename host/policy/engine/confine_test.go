package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-dev/berth/host/policy/vet"
	"github.com/berth-dev/berth/host/policy/vet/wasmtest"
)

// TestAChildIsLimited looks at a compile child that waits for its module: at one
// whose threads are all Go's, and at this binary, which may hold C.
func TestAChildIsLimited(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	check(t, err)
	program, err := childProgram()
	check(t, err)
	for _, path := range []string{program, self} {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(path, childName)
			cmd.Dir, cmd.Env = t.TempDir(), []string{}
			in, err := cmd.StdinPipe()
			check(t, err)
			check(t, cmd.Start())
			defer func() {
				_ = in.Close()
				_ = cmd.Wait()
			}()
			want := []string{`Max cpu time +30 +30 `, `Max core file size +0 +0 `, `Max open files +64 +64 `, `NoNewPrivs:\t1\n`}
			if !raceEnabled || path != self { // the race detector maps terabytes
				want = append(want, fmt.Sprintf(`Max address space +%d +%[1]d `, int64(4<<30)))
			}
			var missing, seen string
			for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
				seen = about(cmd.Process.Pid)
				if missing = firstMissing(seen, want); missing == "" {
					return
				}
			}
			t.Errorf("the child lacks %q in:\n%s", missing, seen)
		})
	}
}

// about is what the kernel tells of a process.
func about(pid int) string {
	var b strings.Builder
	for _, file := range []string{"limits", "status"} {
		said, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
		b.Write(said)
	}
	return b.String()
}

func firstMissing(text string, patterns []string) string {
	for _, p := range patterns {
		if !regexp.MustCompile(p).MatchString(text) {
			return p
		}
	}
	return ""
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

func TestAChildThatLeavesRubbishIsRunAgain(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	wasm := wasmtest.Policy().Bytes()
	out, _, err := vet.Rewrite(wasm, vet.Limits{})
	check(t, err)
	program, err := childProgram()
	check(t, err)
	e.child = script(t, strings.NewReplacer("FOLDER", e.folder, "NAME", entryName(out, e.features),
		"ONCE", filepath.Join(t.TempDir(), "once"), "PROGRAM", program, "CHILD", childName).Replace(`
PATH=/usr/bin:/bin
[ -e ONCE ] && exec PROGRAM CHILD
touch ONCE; mkdir FOLDER; echo rubbish > FOLDER/NAME`))
	m, err := e.Load(context.Background(), wasm, vet.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	m.Close()
	if got := e.Compiled(); got != 2 {
		t.Errorf("it compiled %d times, want twice", got)
	}
}
