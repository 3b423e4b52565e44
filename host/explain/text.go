package explain

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Write prints the report for people.
func (r *Report) Write(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 2, 4, 2, ' ', 0)
	fmt.Fprintf(tw, "Pod:\t%s/%s\nState:\t%s\n", r.Namespace, r.Pod, r.State)
	if r.Node != "" {
		fmt.Fprintf(tw, "Node:\t%s\n", r.Node)
	}
	if r.Message != "" {
		fmt.Fprintf(tw, "Message:\t%s\n", r.Message)
	}
	fmt.Fprintf(tw, "Decided by:\tprofile %s, set %d\nNodes:\t%d, of which %d can take it\n", r.Profile, r.Set, r.Nodes, r.Feasible)
	if d := r.Decision; d != nil {
		fmt.Fprintf(tw, "Decision:\tnumber %d at %s in %s, position %d, seed %d, %d nodes equal\n",
			d.Number, d.At.Format("2006-01-02T15:04:05.000Z07:00"), d.Took, d.Position, d.Seed, d.Tied)
	}
	r.writePreemption(tw)
	if r.Note != "" {
		fmt.Fprintf(tw, "Note:\t%s\n", r.Note)
	}
	fmt.Fprintf(tw, "\nPREDICATE\tREFUSES\tALONE\t\n")
	for _, p := range r.Predicates {
		fmt.Fprintf(tw, "%s\t%d\t%d\t%s\n", p.label(), p.Refuses, p.Alone, p.Error)
	}
	r.writeRows(tw)
	if r.Left > 0 {
		fmt.Fprintf(tw, "and %d more nodes\n", r.Left)
	}
	return tw.Flush()
}

// writePreemption tells of the room that was made for the pod, or at its cost.
func (r *Report) writePreemption(w io.Writer) {
	if room := r.Room; room != nil {
		then := "it goes there when they have ended"
		if r.Node != "" {
			then = "it waited for them to end"
		}
		fmt.Fprintf(w, "Room:\twas made on %s by decision %d, by preempting what has a lower priority than %d; %s\n",
			room.Node, room.Decision, room.Priority, then)
		for i := range room.Victims {
			v := &room.Victims[i]
			fmt.Fprintf(w, "\t%s, priority %d%s\n", v, v.Priority, v.against())
		}
	}
	if by := r.PreemptedBy; by != nil {
		against, priority := "", ""
		if v := by.victim(r.Namespace, r.Pod); v != nil {
			against, priority = v.against(), fmt.Sprintf(" (this one has %d)", v.Priority)
		}
		fmt.Fprintf(w, "Preempted:\tby decision %d, to make room on %s for %s of priority %d%s%s\n",
			by.Decision, by.Node, by.For, by.Priority, priority, against)
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
// or who refuses and why.
func (r *Report) writeRows(w io.Writer) {
	fmt.Fprintf(w, "\nNODE\tTOTAL")
	for _, p := range r.Priorities {
		if !p.Skipped {
			fmt.Fprintf(w, "\t%s", strings.ToUpper(p.Name))
		}
	}
	fmt.Fprintf(w, "\t\n")
	for i := range r.Rows {
		row := &r.Rows[i]
		mark := ""
		if row.Chosen {
			mark = " *"
		}
		if !row.Feasible {
			fmt.Fprintf(w, "%s%s\t-\t%s\n", row.Node, mark, row.reasons())
			continue
		}
		fmt.Fprintf(w, "%s%s\t%d", row.Node, mark, row.Total)
		for k, s := range row.Scores {
			if !r.Priorities[k].Skipped {
				fmt.Fprintf(w, "\t%d→%d×%d", s.Raw, s.Normalized, r.Priorities[k].Weight)
			}
		}
		fmt.Fprintf(w, "\t\n")
	}
}

func (r *Row) reasons() string {
	parts := make([]string, len(r.Refusals))
	for i, f := range r.Refusals {
		parts[i] = f.Predicate + ": " + f.Reason
	}
	return strings.Join(parts, "; ")
}
