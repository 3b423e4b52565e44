package main

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// table is what one kind of measurement gave. All tables have this shape: a
// name, figures with their units, an aim, and whether it is reached.
type table struct {
	Name  string   `json:"table"`
	Title string   `json:"title"`
	Rows  []row    `json:"rows"`
	Notes []string `json:"notes,omitempty"`
}

// row is a line of a table.
type row struct {
	Name    string   `json:"name"`
	Figures []figure `json:"figures"`
	Aim     *aim     `json:"aim,omitempty"`
	// Reached is set where there is an aim.
	Reached *bool `json:"reached,omitempty"`
}

// figure is one number.
type figure struct {
	Column string  `json:"column"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit,omitempty"`
}

// aim is what a row's figure in a column should reach.
type aim struct {
	Column string  `json:"column"`
	Bound  string  `json:"bound"` // atLeast or atMost
	Value  float64 `json:"value"`
	Unit   string  `json:"unit,omitempty"`
}

const (
	atLeast = "atLeast"
	atMost  = "atMost"
)

// figureColumn is the column of rows that have but one figure.
const figureColumn = "figure"

// one is a row with one figure.
func one(name string, value float64, unit string) row {
	return row{Name: name}.with(figureColumn, value, unit)
}

// with is the row and one figure more. What is no number was not measured.
func (r row) with(column string, value float64, unit string) row {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return r
	}
	r.Figures = append(r.Figures[:len(r.Figures):len(r.Figures)], figure{column, value, unit})
	return r
}

// least is the row with an aim that its first figure should not fall below,
// most with one that it should not exceed.
func (r row) least(value float64) row { return r.judged(r.first(), atLeast, value) }
func (r row) most(value float64) row  { return r.judged(r.first(), atMost, value) }

func (r row) first() string {
	if len(r.Figures) == 0 {
		return ""
	}
	return r.Figures[0].Column
}

// judged is the row with an aim for the figure in column.
func (r row) judged(column, bound string, value float64) row {
	f, ok := r.in(column)
	if !ok {
		return r
	}
	reached := f.Value >= value
	if bound == atMost {
		reached = f.Value <= value
	}
	r.Aim, r.Reached = &aim{column, bound, value, f.Unit}, &reached
	return r
}

func (r row) in(column string) (figure, bool) {
	for _, f := range r.Figures {
		if f.Column == column {
			return f, true
		}
	}
	return figure{}, false
}

func (a *aim) String() string {
	if a == nil {
		return ""
	}
	sign := "≥ "
	if a.Bound == atMost {
		sign = "≤ "
	}
	text := sign + withUnit(a.Value, a.Unit)
	if a.Column != figureColumn && a.Unit == "" {
		text += " " + a.Column
	}
	return text
}

// columns are those of all rows, in the order in which they first come, and
// the unit that all figures of a column share, if they do.
func (t *table) columns() (names []string, shared map[string]string) {
	shared = map[string]string{}
	for _, r := range t.Rows {
		for _, f := range r.Figures {
			unit, known := shared[f.Column]
			switch {
			case !known:
				names = append(names, f.Column)
				shared[f.Column] = f.Unit
			case unit != f.Unit:
				shared[f.Column] = ""
			}
		}
	}
	delete(shared, figureColumn)
	return names, shared
}

// cells are the table's texts, the heading first.
func (t *table) cells() [][]string {
	columns, shared := t.columns()
	head := []string{t.Name}
	aims := false
	for _, c := range columns {
		if shared[c] != "" {
			c += ", " + shared[c]
		}
		head = append(head, c)
	}
	for _, r := range t.Rows {
		aims = aims || r.Aim != nil
	}
	if aims {
		head = append(head, "aim", "")
	}
	all := [][]string{head}
	for _, r := range t.Rows {
		line := []string{r.Name}
		for _, c := range columns {
			line = append(line, r.cell(c, shared[c]))
		}
		if aims {
			line = append(line, r.Aim.String(), verdict(r.Reached))
		}
		all = append(all, line)
	}
	return all
}

func (r row) cell(column, shared string) string {
	f, ok := r.in(column)
	if !ok {
		return ""
	}
	if f.Unit == shared {
		return number(f.Value)
	}
	return withUnit(f.Value, f.Unit)
}

func verdict(reached *bool) string {
	switch {
	case reached == nil:
		return ""
	case *reached:
		return "reached"
	default:
		return "missed"
	}
}

func withUnit(v float64, unit string) string {
	switch unit {
	case "":
		return number(v)
	case "%", "×", "/s":
		return number(v) + unit
	default:
		return number(v) + " " + unit
	}
}

// number shows about three digits, and thousands in groups.
func number(v float64) string {
	digits := 0
	for _, bound := range []float64{100, 10, 1} {
		if math.Abs(v) < bound && v != math.Trunc(v) {
			digits++
		}
	}
	return grouped(strconv.FormatFloat(v, 'f', digits, 64))
}

func grouped(s string) string {
	sign := ""
	if rest, ok := strings.CutPrefix(s, "-"); ok {
		sign, s = "-", rest
	}
	whole, rest, _ := strings.Cut(s, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if rest != "" {
		whole += "." + rest
	}
	return sign + whole
}

// writeText prints the table with aligned columns.
func (t *table) writeText(w io.Writer) error {
	lines := t.cells()
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	b.WriteString(t.Title + "\n\n")
	for _, line := range lines {
		var text strings.Builder
		for i, cell := range line {
			gap := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				text.WriteString(cell + gap)
				continue
			}
			text.WriteString("  " + gap + cell)
		}
		b.WriteString(strings.TrimRight(text.String(), " ") + "\n")
	}
	for _, note := range t.Notes {
		b.WriteString(note + "\n")
	}
	_, err := io.WriteString(w, b.String()+"\n")
	return err
}

// writeMarkdown prints the table for README.md.
func (t *table) writeMarkdown(w io.Writer) error {
	var b strings.Builder
	b.WriteString(t.Title + ":\n\n")
	for i, line := range t.cells() {
		b.WriteString("| " + strings.Join(line, " | ") + " |\n")
		if i == 0 {
			b.WriteString("|---" + strings.Repeat("|---:", len(line)-1) + "|\n")
		}
	}
	for _, note := range t.Notes {
		b.WriteString("\n" + note + "\n")
	}
	_, err := fmt.Fprintln(w, b.String())
	return err
}
