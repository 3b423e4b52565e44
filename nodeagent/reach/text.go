package reach

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Write writes it for people, in lines of 80 columns where names allow: of endpoints
// and of missing pods no more than limit, 0 for all, and first those that do not answer.
func (r *Service) Write(w io.Writer, limit int) error {
	p := &printer{w: w}
	p.line("Service %s/%s (%s), as node %s forwards it", r.Namespace, r.Name, r.Type, r.Node)
	for _, n := range r.Notes {
		p.line("  %s", n)
	}
	for _, f := range r.Fronts {
		where := "port " + fmt.Sprint(f.Port) + " of each node"
		if f.Address != "" {
			where = f.Address + ":" + fmt.Sprint(f.Port)
		}
		p.line("  %s %s: %s", where, f.Protocol, f.Target.words())
		if f.Outside != nil {
			p.line("    from outside: %s", f.Outside.words())
		}
		if len(f.Sources) > 0 {
			p.line("    only from %s", strings.Join(f.Sources, ", "))
		}
	}
	p.endpoints(r.Endpoints, limit)
	p.missing(r.Missing, limit)
	return p.err
}

func (p *printer) endpoints(all []Endpoint, limit int) {
	if len(all) == 0 {
		return
	}
	p.line("Endpoints")
	var answer, silent []Endpoint
	for _, e := range all {
		if e.Answers {
			answer = append(answer, e)
		} else {
			silent = append(silent, e)
		}
	}
	shown := upTo(limit, slices.Concat(silent, answer))
	for _, e := range shown {
		says := "answers"
		if !e.Answers {
			says = "does not: " + e.Why
		}
		p.line("  %s%s: %s", e.Address, who(e.Pod, e.Node), says)
	}
	if more := len(all) - len(shown); more > 0 {
		p.line("  and %d more, of which %d answer", more, min(more, len(answer)))
	}
}

func (p *printer) missing(all []Missing, limit int) {
	if len(all) == 0 {
		return
	}
	p.line("Pods that it means, and that are no endpoints")
	shown := upTo(limit, all)
	for _, m := range shown {
		p.line("  %s: %s", m.Pod, m.Why)
	}
	if more := len(all) - len(shown); more > 0 {
		p.line("  and %d more", more)
	}
}

// upTo is the first of all: limit at most, or all where that is 0.
func upTo[T any](limit int, all []T) []T {
	if limit == 0 {
		return all
	}
	return all[:min(limit, len(all))]
}

func (t *Target) words() string {
	switch {
	case t.Verdict == "Reject":
		return "refused, as nobody serves it"
	case t.Verdict == "Drop":
		return "dropped, as nobody serves it on this node"
	}
	out := "to " + strings.Join(t.Backends, ", ")
	if n := len(t.Backends); n > 3 {
		out = fmt.Sprintf("to one of %d, by chance", n)
	}
	if t.Affinity != "" {
		out += "; the same for a client, for " + t.Affinity
	}
	return out
}

func who(pod, node string) string {
	out := ""
	if pod != "" {
		out += " pod " + pod
	}
	if node != "" {
		out += " on " + node
	}
	return out
}

// Write writes it for people.
func (w *Way) Write(out io.Writer) error {
	p := &printer{w: out}
	p.line("From pod %s to %s port %d/%s", w.From, w.To, w.Port, w.Protocol)
	for _, s := range w.Steps {
		p.line("  %-10s %s", s.Step, s.Text)
	}
	for _, e := range w.Ends {
		says := "arrives"
		if !e.Arrives {
			says = "does not arrive: " + e.Why
		}
		p.line("  %s%s: %s", e.Address, who(e.Pod, e.Node), says)
		for _, by := range e.RefusedBy {
			p.line("    refused: %s", by)
		}
	}
	switch {
	case w.Arrives:
		p.line("It arrives.")
	default:
		p.line("It stops at: %s", w.StopsAt)
	}
	return p.err
}

// printer keeps the first error.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}
