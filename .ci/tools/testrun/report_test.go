package main

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// feed gives lines of go test -json to a report and returns what it printed.
func feed(t *testing.T, lines string, testErr error, strict bool) (string, error) {
	t.Helper()
	var out strings.Builder
	r := newReport(&out, func() time.Time { return time.Unix(0, 0) })
	events, readErr := decode(strings.NewReader(lines))
	for e := range events {
		r.event(e)
	}
	if err := <-readErr; err != nil {
		t.Fatal(err)
	}
	err := r.close(testErr, strict)
	return out.String(), err
}

func TestReport(t *testing.T) {
	t.Parallel()
	const good = `{"Action":"start","Package":"a"}
{"Action":"run","Package":"a","Test":"TestX"}
{"Action":"output","Package":"a","Test":"TestX","Output":"chatter\n"}
{"Action":"pass","Package":"a","Test":"TestX","Elapsed":1}
{"Action":"pass","Package":"a","Elapsed":1.5}
`
	cached := strings.Replace(good, `{"Action":"pass","Package":"a","Elapsed":1.5}`, `{"Action":"output","Package":"a","Output":"ok  \ta\t(cached)\n"}
{"Action":"pass","Package":"a","Elapsed":0}`, 1)
	const bad = `{"Action":"start","Package":"b"}
{"Action":"run","Package":"b","Test":"TestY"}
{"Action":"output","Package":"b","Test":"TestY","Output":"y_test.go:1: got 1, want 2\n"}
{"Action":"fail","Package":"b","Test":"TestY","Elapsed":1}
{"Action":"fail","Package":"b","Elapsed":1.5}
`
	const skip = `{"Action":"output","Package":"a","Test":"TestZ","Output":"    z_test.go:3: no containerd\n"}
{"Action":"skip","Package":"a","Test":"TestZ"}
`
	exit1 := errors.New("exit status 1")
	tests := []struct {
		name, lines string
		testErr     error
		strict      bool
		want        []string
		absent      string
		wantErr     string
	}{
		{"a passing test shows its package and no chatter", good, nil, true, []string{"ok   a", "1 passed, 0 failed, 0 skipped\n"}, "chatter", ""},
		{"one that did not run again is said to be cached", cached, nil, true, []string{"1 tests, cached"}, "", ""},
		{"one that ran is not", good, nil, true, []string{"1 tests\n"}, "cached", ""},
		{"a failing test shows its output", good + bad, exit1, true, []string{"got 1, want 2", "FAIL b", "failed:  b", "1 passed, 1 failed"}, "", "1 of 2 packages failed"},
		{"a skip is listed with its reason", good + skip, nil, false, []string{"skipped: a TestZ: z_test.go:3: no containerd", "1 passed, 0 failed, 1 skipped"}, "", ""},
		{"a skip fails a strict run", good + skip, nil, true, nil, "", "1 tests were skipped"},
		{"no test at all is a failure", "", nil, false, nil, "", "no test ran"},
		{"a package that does not build counts as failed", `{"ImportPath":"c","Action":"build-output","Output":"c.go:1: undefined: x\n"}
{"Action":"fail","Package":"c","Elapsed":0,"FailedBuild":"c"}
`, exit1, false, []string{"undefined: x", "0 passed, 1 failed"}, "", "1 of 1 packages failed"},
		{"a crash shows what the unfinished test printed", `{"Action":"start","Package":"d"}
{"Action":"output","Package":"d","Test":"TestD","Output":"panic: boom\n"}
{"Action":"fail","Package":"d","Elapsed":0.1}
`, exit1, false, []string{"panic: boom", "0 passed, 1 failed"}, "", "1 of 1"},
		{"what is no event is passed on", "go: downloading x\n" + good, nil, true, []string{"go: downloading x"}, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			out, err := feed(t, tt.lines, tt.testErr, tt.strict)
			for _, want := range tt.want {
				if !strings.Contains(out, want) {
					t.Errorf("printed %q, want %q in it", out, want)
				}
			}
			if tt.absent != "" && strings.Contains(out, tt.absent) {
				t.Errorf("printed %q, want no %q in it", out, tt.absent)
			}
			if got := errText(err); !strings.Contains(got, tt.wantErr) || (tt.wantErr == "") != (err == nil) {
				t.Errorf("error %q, want %q", got, tt.wantErr)
			}
		})
	}
}

// What failed and passes when it is run again is named, and counted as passed.
func TestWhatPassesTheSecondTimeIsFlaky(t *testing.T) {
	t.Parallel()
	const failed = `{"Action":"pass","Package":"a","Test":"TestX"}
{"Action":"fail","Package":"a","Test":"TestY"}
{"Action":"fail","Package":"a","Elapsed":1}
`
	const passed = `{"Action":"pass","Package":"a","Test":"TestX"}
{"Action":"pass","Package":"a","Test":"TestY"}
{"Action":"pass","Package":"a","Elapsed":1}
`
	var out strings.Builder
	first, second := newReport(&out, time.Now), newReport(&out, time.Now)
	for r, lines := range map[*report]string{first: failed, second: passed} {
		events, _ := decode(strings.NewReader(lines))
		for e := range events {
			r.event(e)
		}
	}
	if again := first.again(); len(again) != 1 || again[0] != "a" {
		t.Fatalf("%q are run again, want a", again)
	}
	first.flaked(second)
	err := first.close(nil, true)
	if want := "flaky:   a TestY failed above"; err != nil || !strings.Contains(out.String(), want) || !strings.HasSuffix(out.String(), "2 passed, 0 failed, 0 skipped, 1 flaky\n") {
		t.Errorf("it printed %q and ended with %v, want %q and one flaky", out.String(), err, want)
	}
}

func TestWhatIsNotRunAgain(t *testing.T) {
	t.Parallel()
	many := ""
	for _, pkg := range []string{"a", "b", "c", "d"} {
		many += `{"Action":"fail","Package":"` + pkg + `","Test":"TestX"}
{"Action":"fail","Package":"` + pkg + `","Elapsed":1}
`
	}
	for name, lines := range map[string]string{
		"a race": `{"Action":"output","Package":"a","Test":"TestX","Output":"WARNING: DATA RACE\n"}
{"Action":"fail","Package":"a","Test":"TestX"}
{"Action":"fail","Package":"a","Elapsed":1}
`,
		"what does not build": `{"Action":"fail","Package":"a","Elapsed":0,"FailedBuild":"a"}
`,
		"many packages": many,
	} {
		var out strings.Builder
		r := newReport(&out, time.Now)
		events, _ := decode(strings.NewReader(lines))
		for e := range events {
			r.event(e)
		}
		if again := r.again(); again != nil {
			t.Errorf("%s: %q are run again", name, again)
		}
	}
	args := []string{"-timeout", "15m", "-race", "./a", "./...", "x/a", "x/b"}
	r := &report{count: map[string]int{"x/a": 1}, broken: []string{"x/b"}}
	if got := strings.Join(r.onceMore(args), " "); got != "-count=1 -timeout 15m -race x/b" {
		t.Errorf("run again with %q", got)
	}
}

func TestWaitingNamesTheOldestTest(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	now := time.Unix(0, 0)
	r := newReport(&out, func() time.Time { return now })
	r.event(event{Action: "start", Package: "a"})
	r.event(event{Action: "run", Package: "a", Test: "TestSlow"})
	now = now.Add(quiet)
	r.waiting()
	if want := "...  running: a (TestSlow, 30 s)\n"; out.String() != want {
		t.Errorf("waiting printed %q, want %q", out.String(), want)
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
