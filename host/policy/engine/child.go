package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tetratelabs/wazero"

	"github.com/berth-dev/berth/host/policy/engine/confine"
)

// childName is the hidden first argument of a compile child.
const childName = "__berth-compile"

// childTime bounds a child by the clock, for one that sleeps: its CPU time is
// bounded already. An honest one stands back behind the host, and gets a tenth
// of a processor where the host keeps all of them busy (by the kernel's weights
// of niceness 10 and 0, 110 of 1134). So it has its CPU time twelve times over.
const childTime = 12 * 30 * time.Second

const maxChildInput = 64 << 20

// childEnv is all that a child finds in its environment. The compiler works on
// one processor, and the others are the host's; a child that ends at once need
// not collect its garbage often, while it stays far below its limit of memory.
var childEnv = []string{"GOMAXPROCS=1", "GOGC=400", "GOMEMLIMIT=1GiB"}

// What a child is told by the first byte of its input.
const (
	modeCompile byte = 'C' // compile what follows
	modeLines   byte = 'L' // read its debug information
)

// init turns this process into a compile child if it was started as one. It does
// so before the other packages of a large binary begin theirs, which take longer
// than to compile a small module does.
func init() {
	if len(os.Args) < 2 || os.Args[1] != childName {
		return
	}
	if err := childRun(len(os.Args) > 2); err != nil {
		fmt.Fprintln(os.Stderr, err)
		if isMachines(err) {
			os.Exit(machineFails)
		}
		os.Exit(1)
	}
	os.Exit(0)
}

// machineFails is how a child ends that could not do its work, whatever the module is.
const machineFails = 75 // EX_TEMPFAIL

var errConfine = errors.New("the compile child cannot be confined")

// isMachines tells the machine's own trouble from what is wrong with a module.
func isMachines(err error) bool {
	return slices.ContainsFunc([]error{errConfine, syscall.ENOSPC, syscall.EDQUOT, syscall.EIO}, func(e error) bool { return errors.Is(err, e) })
}

// childRun works on what comes on standard input. What comes of it goes to
// standard output, a file that the host has opened: a child makes none itself.
func childRun(again bool) error {
	confined := confine.Child.Rest
	if !again {
		confined = func() error { return confine.Child.Self(childName, "confined") }
	}
	if err := confined(); err != nil {
		return fmt.Errorf("%w: %w", errConfine, err)
	}
	wasm, err := io.ReadAll(io.LimitReader(os.Stdin, maxChildInput))
	if err != nil {
		return err
	}
	if len(wasm) == 0 {
		return errors.New("the child was told nothing")
	}
	mode, wasm := wasm[0], wasm[1:]
	if mode == modeLines {
		return childLines(wasm)
	}
	compiled, err := handOver(&taken{code: os.Stdout})
	if err != nil {
		return err
	}
	ctx := context.Background()
	_, err = wazero.NewRuntimeWithConfig(ctx, runtimeConfig(compiled)).CompileModule(ctx, wasm)
	return err
}

// runtimeConfig is the same in the child and in the host, or else the one would
// not find the other's code. The only debug information is what vet wrote: see vet.LineFile.
func runtimeConfig(c wazero.CompilationCache) wazero.RuntimeConfig {
	return wazero.NewRuntimeConfigCompiler().WithCompilationCache(c).WithDebugInfoEnabled(true)
}

// ErrCompile wraps what the compiler says of a module that it does not accept.
var ErrCompile = errors.New("the compiler refuses the module")

// runChild has a child work on a module. What comes of it is in a new file, the
// only one in its folder, which is all that the child can write to.
func runChild(ctx context.Context, command []string, path string, mode byte, wasm []byte) error {
	return runWithin(ctx, time.Duration(confine.Child.CPU)*time.Second, command, path, mode, wasm)
}

// runWithin is runChild of a child that gets so much CPU time.
func runWithin(ctx context.Context, cpu time.Duration, command []string, path string, mode byte, wasm []byte) error {
	out, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, privateFile)
	if err != nil {
		return err
	}
	defer out.Close()
	ctx, cancel := context.WithTimeout(ctx, childTime)
	defer cancel()
	var said limited
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Args[0] = os.Args[0] // which is what ps shows
	cmd.Dir = filepath.Dir(path)
	cmd.Env = childEnv
	cmd.Stdin = io.MultiReader(bytes.NewReader([]byte{mode}), bytes.NewReader(wasm))
	cmd.Stdout, cmd.Stderr = out, &said
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

	// The child is killed when the thread that started it ends, so that thread
	// is kept until then.
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		done <- runGroup(cmd)
	}()
	err = <-done
	switch {
	case err == nil:
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("compile: it takes too long: %w", ctx.Err())
	case ctx.Err() != nil:
		return ctx.Err()
	case cmd.ProcessState == nil:
		return fmt.Errorf("start a compile child: %w", err)
	case spent(cmd.ProcessState, cpu, said.String()):
		return fmt.Errorf("%w: it takes more than %d s of CPU time or %d GiB of memory to compile: make its functions smaller", ErrCompile, confine.Child.CPU, confine.Child.Memory>>30)
	}
	err = fmt.Errorf("%s (%w)", said.String(), err)
	if killed(cmd.ProcessState) || cmd.ProcessState.ExitCode() == machineFails {
		return fmt.Errorf("the machine fails a compile child: %w", err)
	}
	return fmt.Errorf("%w: %w", ErrCompile, err)
}

// runGroup runs a child to its end, and then ends whatever it started.
func runGroup(cmd *exec.Cmd) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	awaitEnd(cmd.Process.Pid)
	// Nobody has asked how the child ended, so its number is still its own.
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	return cmd.Wait()
}

// awaitEnd waits until a child has ended, and leaves how it did to be asked.
func awaitEnd(pid int) {
	const byPid, exited, leave = 1, 4, 0x1000000 // P_PID, WEXITED, WNOWAIT
	for {
		_, _, e := syscall.Syscall6(syscall.SYS_WAITID, byPid, uintptr(pid), 0, exited|leave, 0, 0)
		if e != syscall.EINTR {
			return
		}
	}
}

// spent tells a child that came to the end of its CPU time or memory from one
// that found fault with the module, and from one that was killed before, as the
// kernel does where the machine's memory runs out. The limit is by the kernel's
// ticks, of which a virtual machine that gets little of its processors counts more
// than its processes had.
func spent(is *os.ProcessState, cpu time.Duration, said string) bool {
	took := is.UserTime() + is.SystemTime()
	return killed(is) && took > cpu/2 || strings.Contains(said, "out of memory")
}

func killed(is *os.ProcessState) bool {
	status, ok := is.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// limited keeps the beginning of what is written to it.
type limited struct{ b []byte }

func (l *limited) Write(p []byte) (int, error) {
	const most = 2 << 10
	l.b = append(l.b, p[:min(len(p), most-min(most, len(l.b)))]...)
	return len(p), nil
}

// String is the first line: what follows in a crash is the compiler's own stack.
func (l *limited) String() string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(l.b)), "\n")
	return plain(line)
}
