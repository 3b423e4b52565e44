package main

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func exampleTable() table {
	return table{Name: "api", Title: "The API", Notes: []string{"Both on one machine."}, Rows: []row{
		one("creates", 7934.6, "/s").with("etcd", 12345, "/s").least(8000),
		one("an event to 1,000 watchers, p99", 4.25, "ms").with("etcd", 9, "ms").most(50),
		one("objects", 150_000, ""),
	}}
}

func TestATableIsPrintedForPeople(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := new(exampleTable()).writeText(&b); err != nil {
		t.Fatal(err)
	}
	want := strings.TrimPrefix(`
The API

api                               figure      etcd        aim
creates                          7,935/s  12,345/s  ≥ 8,000/s   missed
an event to 1,000 watchers, p99  4.25 ms      9 ms    ≤ 50 ms  reached
objects                          150,000
Both on one machine.

`, "\n")
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
}

func TestATableIsPrintedForTheReadme(t *testing.T) {
	t.Parallel()
	cost := table{Name: "nodes", Title: "What a decision costs", Rows: []row{
		row{Name: "100"}.with("pods/s", 31000, "").with("p50", 12.5, "µs"),
		row{Name: "5,000"}.with("pods/s", 23000, "").with("p50", 0.125, "µs").least(24000),
	}}
	var b bytes.Buffer
	if err := cost.writeMarkdown(&b); err != nil {
		t.Fatal(err)
	}
	want := strings.TrimPrefix(`
What a decision costs:

| nodes | pods/s | p50, µs | aim |  |
|---|---:|---:|---:|---:|
| 100 | 31,000 | 12.5 |  |  |
| 5,000 | 23,000 | 0.125 | ≥ 24,000 pods/s | missed |

`, "\n")
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("markdown (-want +got):\n%s", diff)
	}
}

func TestJSONHoldsAllFigures(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := writeJSON(&b, []table{exampleTable()}); err != nil {
		t.Fatal(err)
	}
	var got struct{ Tables []table }
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatalf("%v in %s", err, b.Bytes())
	}
	if diff := cmp.Diff([]table{exampleTable()}, got.Tables); diff != "" {
		t.Errorf("tables (-want +got):\n%s", diff)
	}
}

func TestAimsAreJudged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		row  row
		want string
	}{
		"at least, above":     {one("", 9, "").least(8), "reached"},
		"at least, equal":     {one("", 8, "").least(8), "reached"},
		"at least, below":     {one("", 7, "").least(8), "missed"},
		"at most, below":      {one("", 7, "").most(8), "reached"},
		"at most, above":      {one("", 9, "").most(8), "missed"},
		"not a number":        {one("", math.NaN(), "").most(8), ""},
		"without an aim":      {one("", 7, ""), ""},
		"of another column":   {one("", 1, "").with("ratio", 21, "×").judged("ratio", atLeast, 20), "reached"},
		"of an absent column": {one("", 1, "").judged("ratio", atLeast, 20), ""},
	} {
		if got := verdict(c.row.Reached); got != c.want {
			t.Errorf("%s: verdict = %q, want %q", name, got, c.want)
		}
	}
}

func TestNumbersAreShort(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{
		0: "0", 7: "7", 0.1234: "0.123", 1.234: "1.23", 12.34: "12.3", 123.4: "123", 1234.5: "1,234",
		999: "999", 1000: "1,000", 1234567: "1,234,567", -1234: "-1,234", -0.5: "-0.500",
	} {
		if got := number(v); got != want {
			t.Errorf("number(%v) = %q, want %q", v, got, want)
		}
	}
}

func TestTimesGiveTheNearestRank(t *testing.T) {
	t.Parallel()
	var hundred times
	for i := 100; i >= 1; i-- {
		hundred = append(hundred, time.Duration(i))
	}
	for share, want := range map[float64]time.Duration{0: 1, 0.5: 50, 0.99: 99, 0.999: 100, 1: 100} {
		if got := hundred.at(share); got != want {
			t.Errorf("at(%v) of 1…100 = %v, want %v", share, got, want)
		}
	}
	if got := (times{}).at(0.5); got != 0 {
		t.Errorf("at(0.5) of nothing = %v, want 0", got)
	}
	if got := (times{3}).at(0.01); got != 3 {
		t.Errorf("at(0.01) of one = %v, want it", got)
	}
}

func TestTablesAreChosenByName(t *testing.T) {
	t.Parallel()
	if got, err := choose(nil); err != nil || len(got) != len(measurements) {
		t.Errorf("choose() = %d tables, %v, want all", len(got), err)
	}
	if got, err := choose([]string{"workloads"}); err != nil || len(got) != 1 {
		t.Errorf("choose(workloads) = %d tables, %v, want one", len(got), err)
	}
	if _, err := choose([]string{"no-such"}); err == nil || !strings.Contains(err.Error(), "workloads") {
		t.Errorf("choose(no-such) = %v, want an error that names the tables", err)
	}
}
