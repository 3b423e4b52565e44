package table_test

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/engine/enginetest"
	"github.com/berth-dev/berth/host/policy/policytest"
	"github.com/berth-dev/berth/host/policy/table"
	"github.com/berth-dev/berth/host/policy/vet"
)

func TestMain(m *testing.M) {
	engine.ChildProgram = enginetest.Compiler()
	os.Exit(m.Run())
}

const two = `nodes:
- metadata: {name: a}
- metadata: {name: b}
cases:
- name: the first is admitted
  want:
    a: ""
    b: version 1 says no
- name: it is not as the table says
  want: {b: ""}
`

func open(t *testing.T, g policytest.Guest, of *table.Table) *table.Guest {
	t.Helper()
	e, err := engine.New(context.Background(), engine.Config{CacheDir: enginetest.Cache(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	m, err := e.Load(t.Context(), g.Bytes(), vet.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	guest, err := table.Open(m, of)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(guest.Close)
	return guest
}

func TestATableSaysInWhichLineAnAnswerDiffers(t *testing.T) {
	t.Parallel()
	archive := "a table in two files\n-- nodes.yaml --\n" + strings.Replace(two, "cases:\n", "-- cases.yaml --\ncases:\n", 1)
	for file, c := range map[string]struct{ text, at string }{
		"made.yaml":  {two, "made.yaml:10"},
		"made.txtar": {archive, "made.txtar:13"},
	} {
		of, err := table.Parse(file, []byte(c.text))
		if err != nil {
			t.Fatal(err)
		}
		g := open(t, policytest.Guest{Name: "made", Version: "1", Mask: 1, Refuse: 1}, of)
		if failures, err := g.Try(t.Context(), of, &of.Cases[0]); err != nil || len(failures) != 0 {
			t.Errorf("%s: the first case = %v, %v", file, failures, err)
		}
		failures, err := g.Try(t.Context(), of, &of.Cases[1])
		want := []table.Failure{{At: c.at, Message: `of b it says "version 1 says no", want ""`}}
		if diff := cmp.Diff(want, failures); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", file, err, diff)
		}
	}
}

func TestATableAsksAPriority(t *testing.T) {
	t.Parallel()
	of, err := table.Parse("made.yaml", []byte("nodes: [{metadata: {name: a}}, {metadata: {name: b}}]\ncases: [{name: c, scores: {a: 0, b: 7}}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	g := open(t, policytest.Guest{Name: "made", Version: "1", Kind: "priority", Times: 7}, of)
	if failures, err := g.Try(t.Context(), of, &of.Cases[0]); err != nil || len(failures) != 0 {
		t.Errorf("Try = %v, %v", failures, err)
	}
	of.Cases[0].Scores["b"] = 8
	if failures, err := g.Try(t.Context(), of, &of.Cases[0]); err != nil || len(failures) != 1 || failures[0].Message != "b gets 7, want 8" {
		t.Errorf("Try = %v, %v", failures, err)
	}
}

func TestABadTableIsRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"nodez: []": `unknown field "nodez"`,
		"cases: 3":  "cannot unmarshal number",
		"a: [":      "made.yaml: ",
	} {
		if _, err := table.Parse("made.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q) = %v, want %q", text, err, want)
		}
	}
	if _, err := table.Parse("made.txtar", []byte("nodes: []\n")); err == nil || !strings.Contains(err.Error(), "-- table.yaml --") {
		t.Errorf("an archive of no files = %v", err)
	}
	of, err := table.Parse("made.yaml", []byte("nodes: [{metadata: {name: a}}]\ncases:\n- want:\n    x: no\n"))
	if err != nil {
		t.Fatal(err)
	}
	g := open(t, policytest.Guest{Name: "made", Version: "1", Refuse: -1}, of)
	if _, err := g.Try(t.Context(), of, &of.Cases[0]); err == nil || err.Error() != "made.yaml:4: the table has no node x" {
		t.Errorf("a case about no node = %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("t.yaml", []byte(two))
	f.Add("t.txtar", []byte("-- a --\n"+two))
	f.Fuzz(func(_ *testing.T, file string, data []byte) { _, _ = table.Parse(file, data) })
}
