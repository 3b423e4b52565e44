package journal_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/host/journal"
)

func open(t *testing.T, dir string) *journal.Writer {
	t.Helper()
	w, err := journal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func linesOf(t *testing.T, file string) []string {
	t.Helper()
	all := []string{}
	must(t, journal.Lines(file, func(data []byte) (bool, error) {
		all = append(all, strings.TrimSuffix(string(data), "\n"))
		return true, nil
	}))
	return all
}

func same(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestLinesAreReadAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := open(t, dir)
	long := strings.Repeat("x", 3<<20) // more than is read at a time
	must(t, w.Begin(7), w.Line(1), w.Line(long), w.Line(nil), w.Flush(), w.Begin(200), w.Line("last"), w.Flush())
	must(t, os.WriteFile(dir+"/notes.jsonl", nil, 0o600), os.WriteFile(dir+"/9", nil, 0o600))
	firsts, err := journal.Firsts(dir)
	must(t, err)
	same(t, "files", []uint64{7, 200}, firsts)
	same(t, "the first file", []string{"1", `"` + long + `"`, "null"}, linesOf(t, journal.Path(dir, 7)))
	same(t, "the second file", []string{`"last"`}, linesOf(t, journal.Path(dir, 200)))
	var some []string
	must(t, journal.Lines(journal.Path(dir, 7), func(data []byte) (bool, error) {
		some = append(some, string(data[:1]))
		return len(some) < 2, nil
	}))
	same(t, "what is read until it is enough", []string{"1", `"`}, some)
}

// Wherever a file is cut, the lines before are there.
func TestALineThatWasCutIsTheEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := open(t, dir)
	must(t, w.Begin(0), w.Line("one"), w.Line("two"), w.Flush())
	path := journal.Path(dir, 0)
	whole, err := os.ReadFile(path)
	must(t, err)
	for cut := range len(whole) + 1 {
		must(t, os.Truncate(path, int64(cut)))
		want := []string{`"one"`, `"two"`}[:bytes.Count(whole[:cut], []byte("\n"))]
		same(t, fmt.Sprint("of the first bytes, ", cut), want, linesOf(t, path))
		must(t, os.WriteFile(path, whole, 0o600))
	}
}

func TestAFileThatIsFullSaysSo(t *testing.T) {
	t.Parallel()
	w := open(t, t.TempDir())
	w.FileBytes = 10
	must(t, w.Begin(0), w.Line("12345"))
	if w.Full() {
		t.Error("it is full after 8 of 10 bytes")
	}
	must(t, w.Line("12345"))
	if !w.Full() || !w.Writing() {
		t.Errorf("after 16 of 10 bytes: full %v, writing %v", w.Full(), w.Writing())
	}
	must(t, w.Begin(1))
	if w.Full() {
		t.Error("a file that was begun anew is full")
	}
}

// What has come is written, also what comes while the host ends; a disk that refuses
// costs what comes meanwhile.
func TestADiskThatRefusesIsLeftAloneForAWhile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := open(t, dir)
	var said bytes.Buffer
	w.RetryAfter, w.Log = 0, slog.New(slog.NewTextHandler(&said, nil))
	must(t, os.Symlink("/dev/full", journal.Path(dir, 0)))
	come := make(chan int, 9)
	for i := range 9 {
		come <- i
	}
	var lost uint64
	var failed []bool
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	journal.Run(ctx, w, come, func(ctx context.Context, i int) {
		must(t, ctx.Err())
		var err error
		if !w.Writing() {
			err = w.Begin(uint64(i))
		}
		if err == nil {
			err = w.Line(i)
		}
		if err == nil {
			err = w.Flush()
		}
		if err != nil {
			lost++
			w.Refused(err)
		} else {
			w.Taken(lost)
		}
		failed = append(failed, w.Failing())
	})
	same(t, "failing", []bool{true, false, false, false, false, false, false, false, false}, failed)
	same(t, "lines", strings.Split("1 2 3 4 5 6 7 8", " "), linesOf(t, journal.Path(dir, 1)))
	if text := said.String(); strings.Count(text, "cannot be written") != 1 || !strings.Contains(text, "no space left on device") || !strings.Contains(text, "goes on\" dir="+dir+" lost=1") {
		t.Errorf("the log says %s", text)
	}
	if w.Writing() {
		t.Error("the file is open after the end")
	}
}
