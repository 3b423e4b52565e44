package explain

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Page is how a report is printed for people: Wide leaves nothing out, Columns is
// how many a line has, 0 for any number.
type Page struct {
	Wide    bool
	Columns int
}

// Write prints the report for people: the answer first, then what it rests on.
// Policies that make no difference are folded into a line, but on a wide page.
func (r *Report) Write(w io.Writer, page Page) error {
	var b strings.Builder
	fmt.Fprintln(&b, page.Wrapped(r.answer()))
	if len(r.Rows) == 1 && r.Nodes > 1 && !r.Rows[0].Chosen {
		fmt.Fprintln(&b, page.Wrapped(r.whyNot(&r.Rows[0])))
	}
	if r.Message != "" && r.Node != "" {
		fmt.Fprintln(&b, page.Wrapped("Message: "+r.Message))
	}
	r.writePreemption(&b, page)
	if r.Note != "" {
		fmt.Fprintln(&b, page.Wrapped("Note: "+r.Note))
	}
	r.writePredicates(&b, page)
	r.writeRows(&b, page)
	fmt.Fprintf(&b, "\n%s\n", page.Wrapped(r.origin(page)))
	_, err := io.WriteString(w, Legible(b.String()))
	return err
}

// answer is the whole report in a sentence.
func (r *Report) answer() string {
	pod := r.Namespace + "/" + r.Pod
	if r.Node == "" {
		text := pod + " has no node"
		if r.State != "" {
			text += " (" + r.State + ")"
		}
		if r.Message != "" {
			return text + ": " + r.Message
		}
		return fmt.Sprintf("%s: %d of %d nodes can take it", text, r.Feasible, r.Nodes)
	}
	text := pod + " is on " + r.Node
	if r.State != "bound" && r.State != "" {
		text = fmt.Sprintf("%s (%s) was to go to %s", pod, r.State, r.Node)
	}
	text += fmt.Sprintf(": %d of %d nodes can take it", r.Feasible, r.Nodes)
	if d := r.Decision; d != nil && d.Tied > 1 {
		return text + fmt.Sprintf(", %d are equally good", d.Tied)
	}
	if r.Feasible > 1 {
		return text + ", this is the best"
	}
	return text
}

// whyNot says why it did not go to a node.
func (r *Report) whyNot(row *Row) string {
	switch {
	case !row.Feasible:
		return row.Node + " is refused by " + row.reasons()
	case row.Total == r.Best:
		return fmt.Sprintf("%s is as good as any, with %d points: among equals the seed decides", row.Node, row.Total)
	}
	return fmt.Sprintf("%s can take it, with %d points: the best have %d", row.Node, row.Total, r.Best)
}

// origin tells who decided, and when.
func (r *Report) origin(page Page) string {
	text := fmt.Sprintf("Decided by profile %s, set %d", r.Profile, r.Set)
	d := r.Decision
	if d == nil {
		return text
	}
	text += fmt.Sprintf(": decision %d, %s, took %s", d.Number, d.At.Format("2006-01-02 15:04:05 MST"), d.Took.Round(10*time.Microsecond))
	if page.Wide {
		text += fmt.Sprintf(", position %d, seed %d", d.Position, d.Seed)
	}
	return text
}

func (r *Report) writePredicates(b *strings.Builder, page Page) {
	var lines [][]string
	var none, silent int
	for i := range r.Predicates {
		p := &r.Predicates[i]
		switch {
		case page.Wide || p.Refuses > 0 || p.Error != "":
			lines = append(lines, []string{p.label(), strconv.Itoa(p.Refuses), strconv.Itoa(p.Alone), p.Error})
		case p.Skipped:
			silent++
		default:
			none++
		}
	}
	b.WriteString("\n")
	if len(lines) > 0 {
		page.table(b, append([][]string{{"PREDICATE", "REFUSES", "ALONE", ""}}, lines...))
	}
	switch {
	case none > 0 && silent > 0:
		fmt.Fprintf(b, "%s no node, %d have nothing to say about the pod\n", refuse(none), silent)
	case none > 0:
		fmt.Fprintf(b, "%s no node\n", refuse(none))
	case silent > 0:
		fmt.Fprintf(b, "%d predicates have nothing to say about the pod\n", silent)
	}
}

func refuse(n int) string {
	if n == 1 {
		return "1 predicate refuses"
	}
	return fmt.Sprintf("%d predicates refuse", n)
}

// writePreemption tells of the room that was made for the pod, or at its cost.
func (r *Report) writePreemption(b *strings.Builder, page Page) {
	if room := r.Room; room != nil {
		then := "it goes there when they have ended"
		if r.Node != "" {
			then = "it waited for them to end"
		}
		fmt.Fprintln(b, page.Wrapped(fmt.Sprintf("Room: was made on %s by decision %d, by preempting what has a lower priority than %d; %s:",
			room.Node, room.Decision, room.Priority, then)))
		for i := range room.Victims {
			v := &room.Victims[i]
			fmt.Fprintf(b, "  %s, priority %d%s\n", v, v.Priority, v.against())
		}
		if room.Hidden > 0 {
			fmt.Fprintf(b, "  %d more, of namespaces whose pods you may not list\n", room.Hidden)
		}
	}
	if by := r.PreemptedBy; by != nil {
		against, priority := "", ""
		if v := by.victim(r.Namespace, r.Pod); v != nil {
			against, priority = v.against(), fmt.Sprintf(" (this one has %d)", v.Priority)
		}
		whom := fmt.Sprintf("%s of priority %d", by.For, by.Priority)
		if by.For == "" {
			whom = "a pod of a namespace whose pods you may not list"
		}
		fmt.Fprintln(b, page.Wrapped(fmt.Sprintf("Preempted: by decision %d, to make room on %s for %s%s%s",
			by.Decision, by.Node, whom, priority, against)))
	}
}

func (v *Victim) against() string {
	switch len(v.Breaks) {
	case 0:
		return ""
	case 1:
		return ", against PodDisruptionBudget " + v.Breaks[0] + ", since there was no other room"
	}
	return ", against PodDisruptionBudgets " + strings.Join(v.Breaks, " and ") + ", since there was no other room"
}

func (p *Predicate) label() string {
	label := p.Name
	if p.Group != "" {
		label = p.Group + "/" + p.Name
	}
	if p.Skipped {
		label += " (nothing to say)"
	}
	return label
}

// writeRows prints a line a node: the total and its parts, raw→normalised×weight,
// or who refuses and why. Priorities that give all nodes shown the same stand
// below, in one line.
func (r *Report) writeRows(b *strings.Builder, page Page) {
	shown, same := r.telling(page)
	head := []string{"NODE", "TOTAL"}
	for _, k := range shown {
		head = append(head, strings.TrimSuffix(r.Priorities[k].Name, "Priority"))
	}
	lines := [][]string{head}
	for i := range r.Rows {
		row := &r.Rows[i]
		name := row.Node
		if row.Chosen {
			name += " *"
		}
		if !row.Feasible {
			lines = append(lines, []string{name, "-", row.reasons()})
			continue
		}
		line := []string{name, strconv.FormatInt(row.Total, 10)}
		for _, k := range shown {
			line = append(line, r.part(&row.Scores[k], k))
		}
		lines = append(lines, line)
	}
	b.WriteString("\n")
	page.table(b, page.fit(lines, b))
	if r.Left > 0 {
		fmt.Fprintf(b, "and %d more nodes\n", r.Left)
	}
	if len(same) > 0 {
		fmt.Fprintln(b, page.Wrapped("the same for all of these: "+strings.Join(same, ", ")))
	}
}

func (r *Report) part(s *Score, k int) string {
	return fmt.Sprintf("%d→%d×%d", s.Raw, s.Normalized, r.Priorities[k].Weight)
}

// telling are the priorities by which the nodes shown differ, and what the others
// give all of them.
func (r *Report) telling(page Page) (shown []int, same []string) {
	for k := range r.Priorities {
		p := &r.Priorities[k]
		var first *Score
		differs := page.Wide
		for i := range r.Rows {
			row := &r.Rows[i]
			if !row.Feasible || k >= len(row.Scores) {
				continue
			}
			if first == nil {
				first = &row.Scores[k]
			}
			differs = differs || *first != row.Scores[k]
		}
		switch {
		case p.Skipped || first == nil:
		case differs:
			shown = append(shown, k)
		default:
			same = append(same, strings.TrimSuffix(p.Name, "Priority")+" "+r.part(first, k))
		}
	}
	return shown, same
}

// usual is how many columns a page has unless it is known.
const usual = 80

// fit takes short headings where long ones would make lines too long, and writes
// down what they stand for.
func (page Page) fit(lines [][]string, b *strings.Builder) [][]string {
	width := 0
	for _, name := range lines[0] {
		width += utf8.RuneCountInString(name) + gap
	}
	columns := page.Columns
	if columns == 0 {
		columns = usual
	}
	if page.Wide || width <= columns {
		return lines
	}
	var legend []string
	for i := 2; i < len(lines[0]); i++ {
		letters := strings.Map(func(c rune) rune {
			if unicode.IsUpper(c) || unicode.IsDigit(c) {
				return c
			}
			return -1
		}, lines[0][i])
		if letters == "" || slices.Contains(lines[0][:i], letters) {
			letters += strconv.Itoa(i - 1)
		}
		legend = append(legend, letters+" "+lines[0][i])
		lines[0][i] = letters
	}
	fmt.Fprintln(b, page.Wrapped(strings.Join(legend, ", ")))
	return lines
}

const gap = 3

// table writes cells under each other; what stands last in a line may be long.
func (page Page) table(b *strings.Builder, lines [][]string) {
	var width []int
	for _, line := range lines {
		for i, cell := range line {
			if i == len(width) {
				width = append(width, 0)
			}
			if i < len(line)-1 || i == len(lines[0])-1 {
				width[i] = max(width[i], utf8.RuneCountInString(cell))
			}
		}
	}
	for _, line := range lines {
		text, used := "", 0
		for i, cell := range line {
			if i == len(line)-1 {
				text += page.cut(cell, used)
				break
			}
			text += cell + strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell)+gap)
			used += width[i] + gap
		}
		b.WriteString(strings.TrimRight(text, " ") + "\n")
	}
}

// cut ends a cell where the screen does.
func (page Page) cut(cell string, used int) string {
	runes := []rune(cell)
	if room := page.Columns - used; page.Columns > 0 && !page.Wide && room > 1 && len(runes) > room {
		return string(runes[:room-1]) + "…"
	}
	return cell
}

// Legible is a text without what steers a terminal: names and words of modules may
// hold anything. Its lines stay.
func Legible(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || unicode.IsPrint(r):
			return r
		case unicode.IsSpace(r):
			return ' '
		}
		return '?'
	}, text)
}

// Wrapped breaks a sentence where the screen ends, and indents what follows.
func (page Page) Wrapped(text string) string {
	text = Legible(text)
	if page.Columns == 0 {
		return text
	}
	return Fill(text, page.Columns, 0, 2)
}

// Fill breaks a text where a line would be longer than columns. Its first line
// begins in column at; those that follow are indented.
func Fill(text string, columns, at, indent int) string {
	var b strings.Builder
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case at+1+n > columns:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			at = indent
		default:
			b.WriteString(" ")
			at++
		}
		b.WriteString(word)
		at += n
	}
	return b.String()
}

func (r *Row) reasons() string {
	parts := make([]string, len(r.Refusals))
	for i, f := range r.Refusals {
		parts[i] = f.Predicate + ": " + f.Reason
	}
	return strings.Join(parts, "; ")
}
