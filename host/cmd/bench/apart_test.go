package main

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tableInTests is a measurement, which tells what it was asked for. One of broken
// things fails in the midst of it.
func tableInTests(args []string) error {
	name := args[len(args)-1]
	made := table{Name: name, Title: strings.Join(args, " "), Rows: []row{one("a", 2, "s").most(1)}, Notes: []string{"noted"}}
	err := writeJSON(os.Stdout, []table{made})
	if name == "broken" {
		err = errors.Join(err, errors.New("it is broken"))
	}
	return err
}

// TestTablesComeFromProcessesOfTheirOwn holds that nothing of a table gets lost on
// the way, and that one which fails keeps none of the others from being made.
func TestTablesComeFromProcessesOfTheirOwn(t *testing.T) {
	t.Parallel()
	chosen := []measurement{{name: "first"}, {name: "broken"}, {name: "last"}}
	got, err := measureApart(t.Context(), chosen, []string{"-nodes", "7", "-o", "markdown"})
	if err == nil || !strings.Contains(err.Error(), "broken: exit status 1") || strings.Contains(err.Error(), "last") {
		t.Errorf("measureApart says %v, want that of broken alone", err)
	}
	var want []table
	for _, m := range chosen {
		want = append(want, table{
			Name: m.name, Title: "-nodes 7 -o markdown -o json " + m.name,
			Rows: []row{one("a", 2, "s").most(1)}, Notes: []string{"noted"},
		})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tables (-want +got):\n%s", diff)
	}
}
