package explain

import (
	"cmp"
	"slices"
	"strings"

	"github.com/berth-dev/berth/host/schedule/cycle"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// rows writes the nodes that the options ask for.
func (r *Report) rows(t *cycle.Table, reasons *framework.Reasons, log snapshot.Log, host map[int]string, o Options) {
	order := make([]int, 0, len(t.Rows))
	for i, slot := range t.Rows {
		if o.Node != "" && log.Row(slot).Node.Name != o.Node {
			continue
		}
		order = append(order, i)
	}
	feasible := func(i int) bool {
		_, refused := host[i]
		return t.Feasible[i] && !refused
	}
	name := func(i int) string { return log.Row(t.Rows[i]).Node.Name }
	slices.SortFunc(order, func(a, b int) int {
		if fa, fb := feasible(a), feasible(b); fa != fb {
			if fa {
				return -1
			}
			return 1
		}
		chosen := func(i int) int {
			if name(i) == r.Node {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(t.Total[b], t.Total[a]), cmp.Compare(chosen(a), chosen(b)), strings.Compare(name(a), name(b)))
	})
	if o.Limit > 0 && len(order) > o.Limit {
		r.Left = len(order) - o.Limit
		order = order[:o.Limit]
	}
	for _, i := range order {
		row := Row{Node: name(i), Feasible: feasible(i), Refusals: refusals(t, reasons, i)}
		if why, refused := host[i]; refused {
			row.Refusals = append(row.Refusals, Refusal{Predicate: cycle.Host, Reason: why})
		}
		row.Chosen = row.Node == r.Node
		if t.Feasible[i] {
			row.Scores, row.Total = scores(t, i), t.Total[i]
		}
		r.Rows = append(r.Rows, row)
	}
}

func refusals(t *cycle.Table, reasons *framework.Reasons, i int) []Refusal {
	var list []Refusal
	for k := range t.Predicates {
		if id := t.Predicates[k].Reasons[i]; id != 0 {
			reason := reasons.Get(id)
			list = append(list, Refusal{Predicate: t.Predicates[k].Policy, Reason: t.Predicates[k].Text(reasons, i), Final: !reason.Resolvable})
		}
	}
	return list
}

func scores(t *cycle.Table, i int) []Score {
	list := make([]Score, len(t.Priorities))
	for k := range t.Priorities {
		p := &t.Priorities[k]
		list[k] = Score{Raw: p.Raw[i], Normalized: p.Normalized[i], Weighted: p.Weight * p.Normalized[i]}
	}
	return list
}
