package logind_test

import (
	"bufio"
	"bytes"
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/godbus/dbus/v5/prop"

	"github.com/berth-dev/berth/nodeagent/logind"
)

const (
	service = "org.freedesktop.login1"
	path    = dbus.ObjectPath("/org/freedesktop/login1")
	manager = "org.freedesktop.login1.Manager"
)

// bus runs a dbus-daemon of the test's own, and gives its address.
func bus(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("dbus-daemon")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	config := filepath.Join(t.TempDir(), "bus.conf")
	if err := os.WriteFile(config, []byte(`<busconfig><type>custom</type><listen>unix:tmpdir=/tmp</listen>
		<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>`), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--config-file="+config, "--nofork", "--print-address=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(address)
}

// fake is a systemd-logind: each lock is a pipe, which shows when it is let go of.
type fake struct {
	conn  *dbus.Conn
	locks chan lock
}

// lock is a pipe: given is who holds it, held shows when nobody does any more.
type lock struct{ held, given *os.File }

func (f *fake) Inhibit(what, who, why, mode string) (dbus.UnixFD, *dbus.Error) {
	if what != "shutdown" || mode != "delay" || who == "" || why == "" {
		return 0, dbus.MakeFailedError(os.ErrInvalid)
	}
	held, given, err := os.Pipe()
	if err != nil {
		return 0, dbus.MakeFailedError(err)
	}
	fd := dbus.UnixFD(given.Fd()) // before the test may close it
	f.locks <- lock{held, given}
	return fd, nil
}

func startFake(t *testing.T, address string, longest time.Duration) *fake {
	t.Helper()
	conn, err := dbus.Connect(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	f := &fake{conn: conn, locks: make(chan lock, 8)}
	if err := conn.Export(f, path, manager); err != nil {
		t.Fatal(err)
	}
	if _, err := prop.Export(conn, path, prop.Map{manager: {"InhibitDelayMaxUSec": {Value: uint64(longest.Microseconds())}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.RequestName(service, dbus.NameFlagDoNotQueue); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fake) prepare(t *testing.T, down bool) {
	t.Helper()
	if err := f.conn.Emit(path, manager+".PrepareForShutdown", down); err != nil {
		t.Fatal(err)
	}
}

// logText is a log that can be read while it is written.
type logText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func next[T any](t *testing.T, from <-chan T, what string) (got T) {
	t.Helper()
	select {
	case got = <-from:
	case <-time.After(time.Minute):
		t.Fatalf("%s: not within a minute", what)
	}
	return got
}

func TestAShutdownWaitsForPods(t *testing.T) {
	t.Parallel()
	address := bus(t)
	f := startFake(t, address, 5*time.Second)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	downs, goOn, ups, ended, log := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan error, 1), &logText{}
	go func() {
		ended <- logind.Follow(ctx, logind.Config{
			Address: address, Grace: 30 * time.Second, Log: slog.New(slog.NewTextHandler(log, nil)),
			Down: func(context.Context) { downs <- struct{}{}; <-goOn },
			Up:   func(context.Context) { ups <- struct{}{} },
		})
	}()
	first := next(t, f.locks, "the lock")
	f.prepare(t, true)
	next(t, downs, "the end of pods")
	let := first.released()
	select {
	case <-let:
		t.Fatal("the lock was let go of before the pods had ended")
	default:
	}
	goOn <- struct{}{}
	next(t, let, "the lock let go of")

	// It was called off: what comes is held up again.
	f.prepare(t, false)
	next(t, ups, "its return")
	second := next(t, f.locks, "another lock")
	if text := log.String(); !strings.Contains(text, "InhibitDelayMaxSec=5s") || !strings.Contains(text, "wanted=30s") {
		t.Errorf("the log does not say that logind waits too short a time: %s", text)
	}
	f.prepare(t, true)
	next(t, downs, "the end of pods, again")
	let = second.released()
	goOn <- struct{}{}
	next(t, let, "the second lock let go of")
	cancel()
	if err := next(t, ended, "the end"); err != nil {
		t.Error(err)
	}
}

// released tells when nobody holds the lock any more: it has been taken.
func (l lock) released() <-chan struct{} {
	_ = l.given.Close() // the fake's own
	out := make(chan struct{})
	go func() {
		defer close(out)
		_, _ = l.held.Read(make([]byte, 1)) // to the end of the pipe
		_ = l.held.Close()
	}()
	return out
}

func TestAMachineWithoutLogind(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]string{"no bus": "unix:path=" + filepath.Join(t.TempDir(), "none"), "nobody on the bus": bus(t)} {
		log, ended := &logText{}, make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			ended <- logind.Follow(ctx, logind.Config{Address: address, Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
		}()
		deadline := time.After(time.Minute)
		for !strings.Contains(log.String(), "systemd-logind is not there") {
			select {
			case <-deadline:
				t.Fatalf("%s: the log says %q", name, log)
			case <-time.After(time.Millisecond):
			}
		}
		cancel()
		if err := next(t, ended, name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
