package keeper

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-dev/berth/host/polltest"
)

func TestMain(m *testing.M) {
	Main()
	os.Exit(m.Run())
}

// serve starts a server and gives a client of it.
func serve(t *testing.T) *Client {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "k.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- NewServer(slog.New(slog.DiscardHandler)).Serve(ctx, l, false) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return At(socket)
}

// container is the far side of kept streams.
type container struct {
	streams     Streams
	stdin       *os.File
	out, errOut *os.File
}

func newContainer(t *testing.T) Streams {
	t.Helper()
	dir := t.TempDir()
	s := Streams{
		Stdin: filepath.Join(dir, "in"), Stdout: filepath.Join(dir, "out"), Stderr: filepath.Join(dir, "err"),
		LogPath: filepath.Join(dir, "0.log"),
	}
	for _, path := range []string{s.Stdin, s.Stdout, s.Stderr} {
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func run(t *testing.T, s Streams) container {
	t.Helper()
	open := func(path string, flag int) *os.File {
		f, err := os.OpenFile(path, flag, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	return container{s, open(s.Stdin, os.O_RDONLY), open(s.Stdout, os.O_WRONLY), open(s.Stderr, os.O_WRONLY)}
}

func TestOutputIsLoggedAndDrained(t *testing.T) {
	t.Parallel()
	c, s := serve(t), newContainer(t)
	for range 2 { // the second time changes nothing
		if err := c.Keep(t.Context(), "a", s); err != nil {
			t.Fatal(err)
		}
	}
	box := run(t, s)
	io.WriteString(box.out, "one\n")
	io.WriteString(box.errOut, "two\n")
	box.out.Close()
	box.errOut.Close()
	if err := c.Drain(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(s.LogPath)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{" stdout F one\n", " stderr F two\n"} {
		if !strings.Contains(string(b), want) {
			t.Errorf("log %q lacks %q", b, want)
		}
	}
}

func TestAttachReachesBothWays(t *testing.T) {
	t.Parallel()
	c, s := serve(t), newContainer(t)
	if err := c.Keep(t.Context(), "a", s); err != nil {
		t.Fatal(err)
	}
	box := run(t, s)
	var out, errs bytes.Buffer
	eof, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- c.Attach(t.Context(), "a", strings.NewReader("hello"), &out, &errs, func() { close(eof) })
	}()
	<-eof
	got := make([]byte, 5)
	if _, err := io.ReadFull(box.stdin, got); err != nil || string(got) != "hello" {
		t.Fatalf("the container read %q, %v", got, err)
	}
	if err := c.CloseStdin(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := box.stdin.Read(got); !errors.Is(err, io.EOF) {
		t.Errorf("after CloseStdin the container reads %v, want EOF", err)
	}
	io.WriteString(box.out, "o")
	io.WriteString(box.errOut, "e")
	box.out.Close()
	box.errOut.Close()
	if err := <-done; err != nil {
		t.Errorf("Attach: %v", err)
	}
	if out.String() != "o" || errs.String() != "e" {
		t.Errorf("attached got %q and %q, want o and e", out.String(), errs.String())
	}
}

// TestInputIsFedBeforeItsEndIsTold closes the input as soon as its end is told,
// as agents do for containers that are spoken to once: nothing may be lost.
func TestInputIsFedBeforeItsEndIsTold(t *testing.T) {
	t.Parallel()
	c, s := serve(t), newContainer(t)
	if err := c.Keep(t.Context(), "a", s); err != nil {
		t.Fatal(err)
	}
	box := run(t, s)
	const long = 1 << 20
	read := make(chan int, 1)
	go func() {
		data, _ := io.ReadAll(box.stdin)
		read <- len(data)
		box.out.Close()
		box.errOut.Close()
	}()
	closed := make(chan error, 1) // which may be answered after the output has ended
	err := c.Attach(t.Context(), "a", strings.NewReader(strings.Repeat("x", long)), io.Discard, io.Discard, func() {
		closed <- c.CloseStdin(t.Context(), "a")
	})
	if err != nil {
		t.Errorf("Attach: %v", err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if n := <-read; n != long {
		t.Errorf("the container read %d bytes, want %d", n, long)
	}
}

func TestAttachEndsWithItsContext(t *testing.T) {
	t.Parallel()
	c, s := serve(t), newContainer(t)
	if err := c.Keep(t.Context(), "a", s); err != nil {
		t.Fatal(err)
	}
	run(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := c.Attach(ctx, "a", nil, io.Discard, io.Discard, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Attach = %v, want the context's error", err)
	}
	if err := c.Drop(t.Context(), "a"); err != nil {
		t.Errorf("Drop: %v", err)
	}
	if err := c.Attach(t.Context(), "a", nil, io.Discard, io.Discard, nil); !errors.Is(err, ErrUnknown) {
		t.Errorf("Attach after Drop = %v, want ErrUnknown", err)
	}
}

func TestDropOfWhatNeverStarted(t *testing.T) {
	t.Parallel()
	c, s := serve(t), newContainer(t)
	if err := c.Keep(t.Context(), "a", s); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := c.Drop(t.Context(), "a"); err != nil {
			t.Errorf("Drop: %v", err)
		}
	}
}

func TestOutputGoesOnWithoutALog(t *testing.T) {
	t.Parallel()
	c, s := serve(t), newContainer(t)
	if err := os.Symlink("/dev/full", s.LogPath); err != nil {
		t.Fatal(err)
	}
	if err := c.Keep(t.Context(), "a", s); err != nil {
		t.Fatal(err)
	}
	box := run(t, s)
	line := bytes.Repeat([]byte("x"), 1023)
	for range 1024 { // more than a pipe holds
		if _, err := box.out.Write(append(line, '\n')); err != nil {
			t.Fatal(err)
		}
	}
	box.out.Close()
	box.errOut.Close()
	if err := c.Drain(t.Context(), "a"); err != nil {
		t.Error(err)
	}
}

func TestAKeeperProcessOutlivesAndEnds(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "k.sock")
	gone, release, err := Ensure(t.Context(), socket, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	again, releaseAgain, err := Ensure(t.Context(), socket, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if !running(t, socket) {
		t.Fatal("the keeper is no process of its own")
	}
	release()
	<-gone
	select {
	case <-again:
		t.Fatal("the keeper ended while an agent held it")
	default:
	}
	releaseAgain()
	if !polltest.Within(6*lonely, func() bool { return !running(t, socket) }) {
		t.Fatal("a keeper with nothing to keep does not end")
	}
}

// running looks for the keeper's process without waking it.
func running(t *testing.T, socket string) bool {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		b, _ := os.ReadFile(path) // empty for what ended meanwhile
		if string(b) == argv0+"\x00"+socket+"\x00" {
			return true
		}
	}
	return false
}

func TestNonsenseIsRefused(t *testing.T) {
	t.Parallel()
	c := serve(t)
	conn, err := net.Dial("unix", c.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, `{"Op":"dance"}`+"\n")
	b, err := io.ReadAll(conn)
	if err != nil || !strings.Contains(string(b), `unknown operation \"dance\"`) {
		t.Errorf("answer %q, %v", b, err)
	}
}

func FuzzReadFrame(f *testing.F) {
	f.Add([]byte{1, 0, 0, 0, 1, 'x'})
	f.Add([]byte{9, 0, 0, 0, 1, 'x'})
	f.Add([]byte{0, 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, b []byte) {
		buf := make([]byte, maxFrame)
		s, p, err := readFrame(bytes.NewReader(b), buf)
		if err != nil {
			return
		}
		var again bytes.Buffer
		if err := writeFrame(&again, s, p); err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(b, again.Bytes()) {
			t.Errorf("frame %q was read as %d %q", b, s, p)
		}
	})
}
