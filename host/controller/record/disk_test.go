package record_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/host/controller/record"
)

// recorded writes questions, and returns the writer when it has ended.
func recorded(t *testing.T, dir string, set func(*record.Writer), all ...record.Question) *record.Writer {
	t.Helper()
	w, err := record.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if set != nil {
		set(w)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	l := record.New(1 << 20)
	l.Disk = w
	for _, q := range all {
		l.Add(q)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	l.Add(asked("Deployment", "after the end", 0)) // nobody waits for it
	return w
}

// told is what the recording of dir says of an object.
func told(t *testing.T, dir, policy, name string, at time.Time) string {
	t.Helper()
	q, err := record.Read(t.Context(), dir, record.About{Resource: "deployments.apps", Namespace: "default", Name: name, Policy: policy, At: at})
	if err != nil {
		if !errors.As(err, new(*record.OutsideError)) {
			t.Fatal(err)
		}
		return "error: " + err.Error()
	}
	return fmt.Sprintf("%s,%s,%s by %s %x", q.In, q.Out, q.Failure, q.Policy, q.Program[:1])
}

func second(n int) time.Time { return noon.Add(time.Duration(n) * time.Second) }

func TestQuestionsOutliveTheHost(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var kept []string
	set := func(w *record.Writer) {
		w.FileBytes = 1500 // some questions a file
		w.Answering = func(_ context.Context, policy string, program [32]byte) error {
			kept = append(kept, fmt.Sprintf("%s %x", policy, program[:1]))
			return nil
		}
	}
	var first, then []record.Question
	for i := range 20 {
		q := asked("Deployment", "web", 60*i)
		q.Program = [32]byte{byte(i / 10)}
		if i < 15 {
			first = append(first, q, asked("Deployment", "db", 60*i))
		} else {
			then = append(then, q)
		}
	}
	failed := asked("Other", "web", 60*20)
	failed.Out, failed.Failure = nil, "it trapped"
	recorded(t, dir, set, first...)
	recorded(t, dir, set, append(then, failed)...)
	files, err := filepath.Glob(filepath.Join(dir, "questions", "*"))
	if err != nil || len(files) < 5 {
		t.Errorf("the questions lie in %d files, %v", len(files), err)
	}
	if len(kept) < len(files) || kept[0] != "Deployment 00" || kept[len(kept)-1] != "Other 00" {
		t.Errorf("policies that were kept for %d files: %q", len(files), kept)
	}
	for _, tt := range []struct {
		what, policy, name string
		at                 time.Time
		want               string
	}{
		{"the last of all", "", "web", time.Time{}, "question 1200 of web,,it trapped by Other 00"},
		{"the last of a policy", "Deployment", "web", time.Time{}, "question 1140 of web,answer 1140, by Deployment 01"},
		{"at a time", "", "web", second(180), "question 180 of web,answer 180, by Deployment 00"},
		{"between two", "", "db", second(239), "question 180 of db,answer 180, by Deployment 00"},
		{"before the restart", "", "db", second(100_000), "question 840 of db,answer 840, by Deployment 00"},
		{"the first", "", "web", second(0), "question 0 of web,answer 0, by Deployment 00"},
		{"before the first", "", "web", second(-1), "error: no controller was asked about deployments.apps default/web by 2026-03-01T11:59:59.000Z, as far as the recording in " + dir + " tells"},
		{"of a name that begins alike", "", "we", time.Time{}, "error: no controller was asked about deployments.apps default/we, as far as the recording in " + dir + " tells"},
	} {
		if got := told(t, dir, tt.policy, tt.name, tt.at); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.what, got, tt.want)
		}
	}
}

// A policy that cannot be kept, or a disk that is full, costs what is asked until it
// can; the questions after it are there.
func TestAFullDiskCostsQuestionsAndHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "questions"), 0o700); err != nil {
		t.Fatal(err)
	}
	full := filepath.Join(dir, "questions", fmt.Sprintf("%020d.jsonl", noon.UnixNano()))
	if err := os.Symlink("/dev/full", full); err != nil {
		t.Fatal(err)
	}
	refusals := 2
	w := recorded(t, dir, func(w *record.Writer) {
		w.RetryAfter = 0
		w.Answering = func(context.Context, string, [32]byte) error {
			if refusals--; refusals >= 0 {
				return errors.New("no room")
			}
			return nil
		}
	}, asked("Deployment", "web", 0), asked("Deployment", "web", 60), asked("Deployment", "web", 120), asked("Deployment", "web", 180))
	if err := os.Remove(full); err != nil {
		t.Fatal(err)
	}
	if w.Lost() != 2 || w.Failing() {
		t.Errorf("%d are said to be lost, want 2; failing %v", w.Lost(), w.Failing())
	}
	if got := told(t, dir, "", "web", time.Time{}); got != "question 180 of web,answer 180, by Deployment 00" {
		t.Error(got)
	}
	if got := told(t, dir, "", "web", second(119)); !strings.HasPrefix(got, "error: ") {
		t.Error(got)
	}
	left := recorded(t, t.TempDir(), func(w *record.Writer) {
		w.Answering = func(context.Context, string, [32]byte) error { return errors.New("no room") }
	}, asked("Deployment", "web", 0), asked("Deployment", "web", 60))
	if left.Lost() != 2 || !left.Failing() {
		t.Errorf("of a disk that is tried once in a while: %d lost, failing %v", left.Lost(), left.Failing())
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`"policy":"p","at":"2026-03-01T12:00:00Z","program":"` + strings.Repeat("00", 32) + `","length":1,"packed":"AgRhYg=="}` + "\n"))
	f.Add([]byte("\n"))
	f.Fuzz(func(t *testing.T, rest []byte) {
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, "questions"), 0o700); err != nil {
			t.Fatal(err)
		}
		line := append([]byte(`{"resource":"deployments.apps","namespace":"default","name":"web",`), rest...)
		if err := os.WriteFile(filepath.Join(dir, "questions", fmt.Sprintf("%020d.jsonl", 1)), line, 0o600); err != nil {
			t.Fatal(err)
		}
		q, err := record.Read(t.Context(), dir, record.About{Resource: "deployments.apps", Namespace: "default", Name: "web"})
		if (q == nil) == (err == nil) {
			t.Errorf("%+v, %v", q, err)
		}
	})
}

// What a damaged line says is told, and is no crash.
func TestALineThatIsDamagedIsRefused(t *testing.T) {
	t.Parallel()
	const head = `{"resource":"deployments.apps","namespace":"default","name":"web",`
	for name, rest := range map[string]string{
		"no JSON":                `"policy`,
		"a program of nothing":   `"policy":"p","at":"2026-03-01T12:00:00Z","program":"00","length":0,"packed":""}`,
		"a program of too much":  `"policy":"p","at":"2026-03-01T12:00:00Z","program":"` + strings.Repeat("00", 33) + `","length":0,"packed":"AA=="}`,
		"a negative length":      `"policy":"p","at":"2026-03-01T12:00:00Z","program":"` + strings.Repeat("00", 32) + `","length":-1,"packed":"AAA="}`,
		"a length beyond it":     `"policy":"p","at":"2026-03-01T12:00:00Z","program":"` + strings.Repeat("00", 32) + `","length":9,"packed":"AA=="}`,
		"more than anybody asks": `"policy":"p","at":"2026-03-01T12:00:00Z","program":"` + strings.Repeat("00", 32) + `","length":0,"packed":"/////w8A"}`,
		"no compressed bytes":    `"policy":"p","at":"2026-03-01T12:00:00Z","program":"` + strings.Repeat("00", 32) + `","length":0,"packed":"////"}`,
	} {
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, "questions"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "questions", fmt.Sprintf("%020d.jsonl", 1)), []byte(head+rest+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		q, err := record.Read(t.Context(), dir, record.About{Resource: "deployments.apps", Namespace: "default", Name: "web"})
		if err == nil || errors.As(err, new(*record.OutsideError)) {
			t.Errorf("%s: %+v, %v", name, q, err)
		}
	}
}
