package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/host/policy/engine/confine"
	"github.com/berth-dev/berth/host/policy/engine/enginetest"
	"github.com/berth-dev/berth/host/policy/vet"
	"github.com/berth-dev/berth/host/policy/vet/wasmtest"
	"github.com/berth-dev/berth/host/polltest"
)

// program is what serves as compile child, by its path.
func program(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	check(t, err)
	return cmp.Or(ChildProgram, self)
}

// replaced, in the environment of a copy of this binary, has it be a host whose
// file is another's by now.
const replaced = "BERTH_TEST_REPLACED"

func TestAHostWhoseBinaryWasReplacedCompiles(t *testing.T) {
	self, err := os.Executable()
	check(t, err)
	if os.Getenv(replaced) == "" {
		program, err := os.ReadFile(self)
		check(t, err)
		path := filepath.Join(t.TempDir(), "host")
		check(t, os.WriteFile(path, program, 0o700))
		cmd := exec.Command(path, "-test.run", "^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), replaced+"=1")
		if said, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(said), "--- PASS: "+t.Name()) {
			t.Errorf("%v: %s", err, said)
		}
		return
	}
	check(t, os.Remove(self))
	check(t, os.WriteFile(self, []byte("#!/bin/sh\nexit 3\n"), 0o700))
	ChildProgram = ""
	load(t, newEngine(t), wasmtest.Policy().Bytes())
}

// TestAChildIsLimited looks at a compile child that waits for its module: at one
// whose threads are all Go's, and at this binary, which may hold C.
func TestAChildIsLimited(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	check(t, err)
	program := program(t)
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
			want := []string{`Max cpu time +30 +30 `, `Max core file size +0 +0 `, `Max open files +64 +64 `, `NoNewPrivs:\t1\n`, `(?s)nice 10\n.*nice 10\n`}
			if confine.Seccomp() {
				want = append(want, `Seccomp:\t2\n`)
			}
			if !enginetest.Race || path != self { // the race detector maps terabytes
				want = append(want, fmt.Sprintf(`Max address space +%d +%[1]d `, int64(4<<30)))
			}
			var missing, seen string
			if !polltest.Within(time.Minute, func() bool {
				seen = about(cmd.Process.Pid)
				missing = firstMissing(seen, want)
				return missing == ""
			}) {
				t.Errorf("the child lacks %q in:\n%s", missing, seen)
			}
		})
	}
}

// about is what the kernel tells of a process, and how far each of its threads
// stands back.
func about(pid int) string {
	var b strings.Builder
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, thread := range threads {
		stat, _ := os.ReadFile(thread)
		_, after, _ := strings.Cut(string(stat), ") ")
		if fields := strings.Fields(after); len(fields) > 16 {
			b.WriteString("nice " + fields[16] + "\n")
		}
	}
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

func TestAChildThatLeavesRubbishIsRunAgain(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	wasm := wasmtest.Policy().Bytes()
	program := program(t)
	e.child = script(t, strings.NewReplacer("ONCE", filepath.Join(t.TempDir(), "once"), "PROGRAM", program, "CHILD", childName).Replace(`
PATH=/usr/bin:/bin
[ -e ONCE ] && exec PROGRAM CHILD
touch ONCE; echo rubbish`))
	m, err := e.Load(context.Background(), wasm, vet.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	m.Close()
	if got := e.Compiled(); got != 2 {
		t.Errorf("it compiled %d times, want twice", got)
	}
}

// TestASubvertedChildIsContained has children do harm within a compile child's
// limits: see enginetest/subverted. The host says what became of the module,
// keeps nothing of it, and compiles the next one.
func TestASubvertedChildIsContained(t *testing.T) {
	t.Parallel()
	subverted, err := enginetest.Subverted()
	check(t, err)
	wasm := wasmtest.Policy().Bytes()
	for _, tt := range []struct {
		harm, says string
		timeout    time.Duration
	}{
		{"memory", "it takes more than 30 s of CPU time or 4 GiB of memory", 0},
		{"spin", "signal: killed", 0}, // by a limit of the test's, far below the child's own
		{"flood", "file too large", 0},
		{"hang", "it takes too long", time.Second},
		{"fork", "forked ", 0},
		{"nothing", "the compiled code is broken", 0},
		{"disk", "it may write no more: write /dev/stdout: file too large", 0},
		{"files", "it may do nothing", 0},
		{"large", "the compiled code is broken", 0},
		{"elsewhere", "it may do nothing", 0},
		{"beyond", "it may do nothing", 0},
	} {
		t.Run(tt.harm, func(t *testing.T) {
			t.Parallel()
			e := newEngine(t)
			other := filepath.Join(e.cache.dir, "another-module")
			check(t, e.cache.put(filepath.Base(other), []byte("its code")))
			var argument string
			if tt.harm == "beyond" && !confine.Seccomp() {
				return
			}
			if tt.harm == "elsewhere" {
				argument = other
			}
			good := e.child
			e.child = []string{subverted, tt.harm, argument}
			ctx := t.Context()
			if tt.timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, tt.timeout)
				defer cancel()
			}
			_, err := e.Load(ctx, wasm, vet.Limits{})
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Fatalf("Load = %v, want an error that says %q", err, tt.says)
			}
			var pid int
			if _, after, ok := strings.Cut(err.Error(), "forked "); ok {
				_, err := fmt.Sscan(after, &pid)
				check(t, err)
				awaitGone(t, pid)
			}
			if left := entries(t, e); len(left) != 1 || string(e.cache.get(filepath.Base(other))) != "its code" {
				t.Errorf("the cache holds %v, want the other module's code alone, as it was", left)
			}
			e.child = good
			m, err := e.Load(t.Context(), wasm, vet.Limits{})
			if err != nil {
				t.Fatalf("with an honest child: %v", err)
			}
			m.Close()
		})
	}
}

// awaitGone waits until a process has ended.
func awaitGone(t *testing.T, pid int) {
	t.Helper()
	polltest.Until(t, fmt.Sprintf("process %d has ended", pid), func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(stat), ") Z ") // whoever inherits it may not reap it
	})
}

// TestTheCompilerItselfRunsIntoItsLimit gives the real compiler a module that
// vet would refuse, since it takes half a minute, under a lower limit.
func TestTheCompilerItselfRunsIntoItsLimit(t *testing.T) {
	t.Parallel()
	m := wasmtest.Empty()
	m.Func("bomb", wasmtest.Sig([]byte{wasmtest.I32}), []byte{wasmtest.I32}, wasmtest.Times(40_000,
		wasmtest.Get(0), wasmtest.Op(0x04, wasmtest.Void), wasmtest.Get(0), wasmtest.Set(1), wasmtest.Op(0x05), wasmtest.I32Const(1), wasmtest.Set(1), wasmtest.Op(0x0b)))
	program := program(t)
	child := script(t, "ulimit -t 1\nexec "+program+" "+childName)
	err := runWithin(t.Context(), time.Second, child, filepath.Join(t.TempDir(), "code"), modeCompile, m.Bytes())
	if !errors.Is(err, ErrCompile) || !strings.Contains(err.Error(), "CPU time or") {
		t.Errorf("runWithin = %v, want it to say that the module takes too much", err)
	}
}
