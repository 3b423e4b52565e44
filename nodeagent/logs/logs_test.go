package logs

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func write(t *testing.T, path string, maxBytes int64, files int, text string) {
	t.Helper()
	w, err := Open(path, maxBytes, files)
	if err != nil {
		t.Fatal(err)
	}
	s := w.Stream("stdout")
	if _, err := io.WriteString(s, text); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string, o Options) string {
	t.Helper()
	var b bytes.Buffer
	if err := Read(t.Context(), path, o, &b, &b, nil); err != nil {
		t.Fatalf("Read: %v", err)
	}
	return b.String()
}

func TestWhatIsWrittenIsReadAgain(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 3*maxPiece+7)
	for name, text := range map[string]string{
		"nothing": "", "one line": "a\n", "an unfinished line": "a\nb", "empty lines": "\n\n", "a long line": "a\n" + long + "\nb\n", "a long unfinished line": long,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "0.log")
			write(t, path, 0, 1, text)
			if got := read(t, path, Options{}); got != text {
				t.Errorf("read %d bytes %.60q, want %d %.60q", len(got), got, len(text), text)
			}
		})
	}
}

func TestTailCountsLines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("y", 2*maxPiece+1)
	text := "one\ntwo\n" + long + "\nfour\n"
	for name, test := range map[string]struct {
		tail int64
		want string
	}{
		"none":                   {0, ""},
		"one":                    {1, "four\n"},
		"a line in pieces":       {2, long + "\nfour\n"},
		"the line before pieces": {3, "two\n" + long + "\nfour\n"},
		"all":                    {4, text},
		"more than there are":    {9, text},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "0.log")
			write(t, path, 0, 1, text)
			if got := read(t, path, Options{Tail: test.tail, HasTail: true}); got != test.want {
				t.Errorf("tail %d: %d bytes %.40q, want %d %.40q", test.tail, len(got), got, len(test.want), test.want)
			}
		})
	}
}

func TestRotationKeepsTheNewestFiles(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "0.log")
	var all strings.Builder
	for i := range 400 {
		fmt.Fprintf(&all, "line %03d\n", i)
	}
	write(t, path, 1000, 3, all.String())
	files, err := filepath.Glob(path + "*")
	if err != nil || len(files) != 3 {
		t.Fatalf("files %v, %v; want 3", files, err)
	}
	for _, f := range files {
		if info, err := os.Stat(f); err != nil || info.Size() > 1000 {
			t.Errorf("%s: %v, %v", f, info.Size(), err)
		}
	}
	got := read(t, path, Options{})
	if !strings.HasSuffix(all.String(), got) || strings.Count(got, "\n") < 30 {
		t.Errorf("read %d lines, not the newest", strings.Count(got, "\n"))
	}
	if got := read(t, path, Options{Tail: 40, HasTail: true}); strings.Count(got, "\n") != 40 || !strings.HasSuffix(got, "line 399\n") {
		t.Errorf("tail over files: %d lines", strings.Count(got, "\n"))
	}
}

func TestFollowSeesEveryLineOverRotations(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "0.log")
	w, err := Open(path, 20_000, 3)
	if err != nil {
		t.Fatal(err)
	}
	var on atomic.Bool
	on.Store(true)
	var b bytes.Buffer
	done := make(chan error, 1)
	go func() { done <- Read(context.Background(), path, Options{Follow: true}, &b, nil, on.Load) }()
	s := w.Stream("stdout")
	var want strings.Builder
	for i := range 600 {
		line := fmt.Sprintf("line %d\n", i)
		want.WriteString(line)
		if _, err := io.WriteString(s, line); err != nil {
			t.Fatal(err)
		}
		if i%50 == 0 {
			time.Sleep(30 * time.Millisecond)
		}
	}
	on.Store(false)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if b.String() != want.String() {
		t.Errorf("followed %d bytes, want %d", b.Len(), want.Len())
	}
	w.Close()
}

func TestOptions(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "0.log")
	records := "2026-01-02T03:04:05.000000001Z stdout F old\n" +
		"2026-01-02T03:04:06Z stderr F bad\n" +
		"torn reco\n" +
		"2026-01-02T03:04:07Z stdout P part\n" +
		"2026-01-02T03:04:08Z stdout F ial\n"
	if err := os.WriteFile(path, []byte(records), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		o    Options
		want string
	}{
		"a torn record is passed over":      {Options{}, "old\nbad\npartial\n"},
		"since leaves out what is older":    {Options{Since: time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC)}, "bad\npartial\n"},
		"one stream":                        {Options{Stream: "stderr"}, "bad\n"},
		"a limit cuts":                      {Options{LimitBytes: 6}, "old\nba"},
		"timestamps come once for one line": {Options{Timestamps: true, Stream: "stdout"}, "2026-01-02T03:04:05.000000001Z old\n2026-01-02T03:04:07Z partial\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := read(t, path, test.o); got != test.want {
				t.Errorf("Read(%+v) = %q, want %q", test.o, got, test.want)
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("2026-01-02T03:04:05Z stdout F text\n"), int64(1))
	f.Add([]byte("2026-01-02T03:04:05Z stdout P te\n2026-01-02T03:04:05Z stdout F xt"), int64(3))
	f.Add([]byte("\n\n \n"), int64(2))
	f.Fuzz(func(t *testing.T, data []byte, tail int64) {
		path := filepath.Join(t.TempDir(), "0.log")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		var whole, end bytes.Buffer
		if err := Read(t.Context(), path, Options{}, &whole, &whole, nil); err != nil {
			return
		}
		if err := Read(t.Context(), path, Options{Tail: tail, HasTail: true}, &end, &end, nil); err != nil {
			t.Fatal(err)
		}
		if !bytes.HasSuffix(whole.Bytes(), end.Bytes()) {
			t.Errorf("the tail %q is no end of %q", end.Bytes(), whole.Bytes())
		}
	})
}

// slow is a client that reads nothing until it is let.
type slow struct {
	let chan struct{}
	bytes.Buffer
}

func (s *slow) Write(p []byte) (int, error) {
	<-s.let
	return s.Buffer.Write(p)
}

// followSlowly has a client look away while that many files are filled, and
// gives what was written and what came to it.
func followSlowly(t *testing.T, files int) (want, got string, err error) {
	const maxBytes, perFile = 2_000, 40
	path := filepath.Join(t.TempDir(), "0.log")
	w, err := Open(path, maxBytes, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	out := w.Stream("stdout")
	var all strings.Builder
	line := func(i int) {
		text := fmt.Sprintf("line %04d\n", i)
		all.WriteString(text)
		if _, err := io.WriteString(out, text); err != nil {
			t.Fatal(err)
		}
	}
	line(0)
	var on atomic.Bool
	on.Store(true)
	client := &slow{let: make(chan struct{})}
	done := make(chan error, 1)
	go func() { done <- Read(t.Context(), path, Options{Follow: true}, client, client, on.Load) }()
	for i := range files * perFile {
		line(i + 1)
		if i%perFile == 0 {
			time.Sleep(time.Second) // of the bubble: the follower gets its turn
		}
	}
	close(client.let)
	on.Store(false)
	err = <-done
	return all.String(), client.String(), err
}

func TestFollowLosesNothingWhileItsClientIsSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		want, got, err := followSlowly(t, 12)
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("%d of %d lines came", strings.Count(got, "\n"), strings.Count(want, "\n"))
		}
	})
}

// TestAFollowerThatFellBehindIsTold: the disk is not filled for it, but it does
// not take what came for the whole.
func TestAFollowerThatFellBehindIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		want, got, err := followSlowly(t, 3*maxHeld)
		if !errors.Is(err, ErrBehind) || !strings.HasPrefix(want, got) {
			t.Errorf("%v after %d lines, want ErrBehind after the first of %d", err, strings.Count(got, "\n"), strings.Count(want, "\n"))
		}
	})
}

// TestReadWhileTheLogIsRotated reads again and again beside a writer in haste:
// each time lines without a gap.
func TestReadWhileTheLogIsRotated(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "0.log")
	w, err := Open(path, 4_000, 5)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	defer func() {
		<-done
		w.Close()
	}()
	go func() {
		defer close(done)
		out := w.Stream("stdout")
		for i := range 20_000 {
			if _, err := fmt.Fprintf(out, "%d\n", i); err != nil {
				t.Error(err)
			}
		}
	}()
	for on := true; on; {
		select {
		case <-done:
			on = false
		default:
		}
		last := -1
		for line := range strings.Lines(read(t, path, Options{})) {
			var n int
			if _, err := fmt.Sscan(line, &n); err != nil || last >= 0 && n != last+1 {
				t.Fatalf("line %q after %d", line, last)
			}
			last = n
		}
	}
}

// TestALogThatIsBeingRotatedIsRead: for a moment nothing has the log's name.
func TestALogThatIsBeingRotatedIsRead(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "0.log")
	write(t, path, 0, 1, "one\ntwo\n")
	if err := os.Rename(path, rotated(path, 1)); err != nil {
		t.Fatal(err)
	}
	if got := read(t, path, Options{}); got != "one\ntwo\n" {
		t.Errorf("read %q", got)
	}
	if err := Read(t.Context(), filepath.Join(t.TempDir(), "0.log"), Options{}, io.Discard, io.Discard, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Read of no log: %v", err)
	}
}

// TestAMillionLinesAreFollowed is what was tried when 372,128 of them were lost:
// as fast as they can be written, with the sizes that an agent has.
func TestAMillionLinesAreFollowed(t *testing.T) {
	t.Parallel()
	lines := 1_000_000
	if testing.Short() || os.Getenv("BERTH_CAMPAIGN") == "" {
		lines = 200_000
	}
	path := filepath.Join(t.TempDir(), "0.log")
	w, err := Open(path, 10<<20, 5)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	var on atomic.Bool
	on.Store(true)
	from, to := io.Pipe()
	go func() { to.CloseWithError(Read(t.Context(), path, Options{Follow: true}, to, to, on.Load)) }()
	go func() {
		defer on.Store(false)
		out := w.Stream("stdout")
		for i := range lines {
			if _, err := fmt.Fprintf(out, "%d %s\n", i, "a line that is as long as those of programs that say what they do, and when"); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	next := 0
	for scan := bufio.NewScanner(from); scan.Scan(); next++ {
		var n int
		if _, err := fmt.Sscan(scan.Text(), &n); err != nil || n != next {
			t.Fatalf("line %q, want that of number %d", scan.Text(), next)
		}
	}
	if next != lines {
		t.Errorf("%d of %d lines came", next, lines)
	}
}

// A rotation that fails loses what came meanwhile, and no more.
func TestARotationThatFailsIsTriedAgain(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "logs")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "0.log")
	w, err := Open(path, 100, 2)
	if err != nil {
		t.Fatal(err)
	}
	out := w.Stream("stdout")
	line := strings.Repeat("x", 40) + "\n"
	fmt.Fprint(out, line)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if _, err := fmt.Fprint(out, line); err == nil {
			t.Fatal("a line was written without a folder")
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(out, "back\n")
	if err := errors.Join(out.Close(), w.Close()); err != nil {
		t.Fatal(err)
	}
	if got := read(t, path, Options{}); got != "back\n" {
		t.Errorf("read %.80q, want the line that came when it could be written again", got)
	}
}
