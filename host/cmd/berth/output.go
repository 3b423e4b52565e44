package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/host/explain"
)

// output is how a command prints, by the flags that kubectl has.
type output struct {
	format    string
	noHeaders bool
	width     []int // of the columns that were printed before
}

// addOutputFlag gives cmd the flags -o and --no-headers.
func addOutputFlag(cmd *cobra.Command) *output {
	o := new(output)
	cmd.Flags().StringVarP(&o.format, "output", "o", "", "how to print: wide, name, json, yaml or jsonpath=TEMPLATE; by default a table")
	cmd.Flags().BoolVar(&o.noHeaders, "no-headers", false, "print no headings")
	oneOf(cmd, "output", "wide", "name", "json", "yaml", "jsonpath=")
	return o
}

// asTable says whether people are to read it.
func (o *output) asTable() bool {
	return o.format == "" || o.format == "table" || o.format == "wide" || o.format == "name"
}

// printAs writes value in a notation for programs, or the table that asTable makes.
func (o *output) printAs(w io.Writer, value any, asTable func() *table) error {
	template, isPath := strings.CutPrefix(o.format, "jsonpath=")
	switch {
	case o.format == "json":
		enc := json.NewEncoder(w)
		enc.SetIndent("", "    ")
		return enc.Encode(value)
	case o.format == "yaml":
		data, err := yaml.Marshal(value)
		if err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	case isPath:
		return printPath(w, template, value)
	case o.format == "name":
		return asTable().writeNames(w)
	case o.asTable():
		t := asTable()
		t.all, t.bare, t.width = o.format == "wide", o.noHeaders, o.width
		err := t.write(w)
		o.width = t.width
		return err
	}
	return fmt.Errorf("unknown output format %q: use wide, name, json, yaml or jsonpath=TEMPLATE", o.format)
}

// printPath prints what a template of kubectl's JSONPath finds in a value.
func printPath(w io.Writer, template string, value any) error {
	if !strings.Contains(template, "{") {
		template = "{" + template + "}"
	}
	path := jsonpath.New("output").AllowMissingKeys(true)
	if err := path.Parse(template); err != nil {
		return fmt.Errorf("-o jsonpath: %w", err)
	}
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	var plain any
	if err := json.Unmarshal(data, &plain); err != nil {
		return err
	}
	if err := path.Execute(w, plain); err != nil {
		return fmt.Errorf("-o jsonpath: %w", err)
	}
	return nil
}

// table is rows under headings.
type table struct {
	// kind stands before the names of the first column in -o name.
	kind string
	head []string
	rows [][]string
	// wide is how many of the last columns only -o wide shows.
	wide int
	// notes are lines below that belong to rows, foot one below all, which without
	// rows is all there is to say.
	notes []string
	foot  string

	all, bare bool
	width     []int // of the columns at least
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// note tells more of a row than fits beside it.
func (t *table) note(about, text string) {
	if text != "" {
		t.notes = append(t.notes, about+": "+text)
	}
}

// oneLine keeps a cell in its row and column.
func oneLine(cell string) string {
	return strings.ReplaceAll(explain.Legible(cell), "\n", " ")
}

// What stands between columns, and where that is too much for the screen.
const (
	columnGap = 3
	narrowGap = 2
)

func (t *table) write(w io.Writer) error {
	var b strings.Builder
	look := lookOf(w)
	if len(t.rows) == 0 && t.foot != "" {
		_, err := fmt.Fprintln(w, look.wrapped(t.foot))
		return err
	}
	columns := len(t.head)
	if !t.all {
		columns -= t.wide
	}
	lines := [][]string{}
	if !t.bare {
		lines = append(lines, t.head[:columns])
	}
	for _, row := range t.rows {
		cells := make([]string, 0, columns)
		for _, cell := range row[:min(columns, len(row))] {
			if cell = oneLine(cell); cell == "" {
				cell = "<none>"
			}
			cells = append(cells, cell)
		}
		lines = append(lines, cells)
	}
	t.width = widths(lines, columns, t.width)
	for n, line := range lines {
		look.line(&b, line, t.width, n > 0 || t.bare)
	}
	for _, note := range t.notes {
		b.WriteString(look.wrapped(oneLine(note)) + "\n")
	}
	if t.foot != "" {
		b.WriteString("\n" + look.wrapped(t.foot) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func widths(lines [][]string, columns int, least []int) []int {
	width := make([]int, columns)
	copy(width, least)
	for _, line := range lines {
		for i, cell := range line {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	return width
}

func (t *table) writeNames(w io.Writer) error {
	for _, row := range t.rows {
		name := row[0]
		if t.kind != "" {
			name = t.kind + "/" + name
		}
		if _, err := fmt.Fprintln(w, name); err != nil {
			return err
		}
	}
	return nil
}

// look is what a terminal can show: columns is 0 where lines may have any length.
type look struct {
	columns int
	colour  bool
}

func lookOf(w io.Writer) look {
	f, ok := w.(*os.File)
	if !ok || !isTerminal(w) {
		return look{}
	}
	l := look{columns: 80, colour: os.Getenv("NO_COLOR") == ""}
	if size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil && size.Col > 0 {
		l.columns = int(size.Col)
	}
	return l
}

// hues are the words that have a colour of their own.
var hues = map[string]string{
	"Live": "32", "live": "32", "Running": "32", "Accepted": "32",
	"Refused": "31", "Quarantined": "31", "AutoRolledBack": "31",
	"NotRunning": "33", "RolledBack": "33", "on trial": "33", "Shadow": "36", "Off": "90",
}

// gap is what stands between columns of those widths.
func (l look) gap(width []int) int {
	whole := columnGap * (len(width) - 1)
	for _, w := range width {
		whole += w
	}
	if l.columns > 0 && whole > l.columns {
		return narrowGap
	}
	return columnGap
}

// line writes cells under each other; the last is cut where the screen ends.
func (l look) line(b *strings.Builder, cells []string, width []int, hued bool) {
	used, gap := 0, l.gap(width)
	for i, cell := range cells {
		last := i == len(cells)-1
		if room := l.columns - used; last && l.columns > 0 && room > 1 && utf8.RuneCountInString(cell) > room {
			cell = string([]rune(cell)[:room-1]) + "…"
		}
		pad := 0
		if !last {
			pad = width[i] - utf8.RuneCountInString(cell) + gap
		}
		used += width[i] + gap
		if hue := hues[cell]; hue != "" && hued && l.colour {
			cell = "\x1b[" + hue + "m" + cell + "\x1b[0m"
		}
		b.WriteString(cell + strings.Repeat(" ", pad))
	}
	b.WriteString("\n")
}

// wrapped breaks a text where the screen ends, and indents what follows.
func (l look) wrapped(text string) string { return explain.Page{Columns: l.columns}.Wrapped(text) }

// age is how long ago something was, as kubectl has it.
func age(since metav1.Time) string {
	if since.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(time.Since(since.Time))
}

// ownFirst puts what users brought before what came with the host.
func ownFirst[T any](all []T, builtin func(*T) bool) []T {
	slices.SortStableFunc(all, func(a, b T) int {
		switch x, y := builtin(&a), builtin(&b); {
		case x == y:
			return 0
		case y:
			return -1
		}
		return 1
	})
	return all
}
