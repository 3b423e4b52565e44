package explain

// Columns are a Report of all nodes in short, for who draws it: what stands at the
// same place of Names and of each Score is of one node.
type Columns struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	State     string `json:"state"`
	Node      string `json:"node,omitempty"`
	Message   string `json:"message,omitempty"`
	Derived   string `json:"derived"`
	Note      string `json:"note,omitempty"`

	Names    []string `json:"names"`
	Feasible int      `json:"feasible"`
	// Total is -1 where the pod cannot go.
	Total      []int64         `json:"total"`
	Predicates []VerdictColumn `json:"predicates"`
	Priorities []ScoreColumn   `json:"priorities"`
}

// VerdictColumn is what one predicate refuses: the nodes of Rows, each for the
// reason that Why has at the same place.
type VerdictColumn struct {
	Name    string   `json:"name"`
	Rows    []int    `json:"rows"`
	Why     []int    `json:"why"`
	Reasons []string `json:"reasons"`
}

// ScoreColumn is what one priority says: its normalised scores, -1 for a node that
// it was not asked about.
type ScoreColumn struct {
	Name   string  `json:"name"`
	Weight int64   `json:"weight"`
	Scores []int64 `json:"scores"`
}

// ColumnsOf are those of a report with all its rows. Predicates that refuse no node
// and priorities that were skipped are left out.
func ColumnsOf(r *Report) *Columns {
	c := &Columns{
		Namespace: r.Namespace, Pod: r.Pod, State: r.State, Node: r.Node, Message: r.Message, Derived: r.Derived, Note: r.Note,
		Feasible: r.Feasible, Names: make([]string, len(r.Rows)), Total: make([]int64, len(r.Rows)),
		Predicates: []VerdictColumn{}, Priorities: []ScoreColumn{},
	}
	for i := range r.Rows {
		c.Names[i], c.Total[i] = r.Rows[i].Node, -1
		if r.Rows[i].Feasible {
			c.Total[i] = r.Rows[i].Total
		}
	}
	for _, p := range r.Predicates {
		if p.Refuses > 0 {
			c.Predicates = append(c.Predicates, verdictsOf(r, p.Name))
		}
	}
	for k, p := range r.Priorities {
		if !p.Skipped {
			c.Priorities = append(c.Priorities, ScoreColumn{Name: p.Name, Weight: p.Weight, Scores: scoresOf(r, k)})
		}
	}
	return c
}

func verdictsOf(r *Report, predicate string) VerdictColumn {
	v, known := VerdictColumn{Name: predicate}, map[string]int{}
	for i := range r.Rows {
		for _, no := range r.Rows[i].Refusals {
			if no.Predicate != predicate {
				continue
			}
			why, ok := known[no.Reason]
			if !ok {
				why = len(v.Reasons)
				known[no.Reason] = why
				v.Reasons = append(v.Reasons, no.Reason)
			}
			v.Rows, v.Why = append(v.Rows, i), append(v.Why, why)
		}
	}
	return v
}

func scoresOf(r *Report, priority int) []int64 {
	list := make([]int64, len(r.Rows))
	for i := range r.Rows {
		list[i] = -1
		if priority < len(r.Rows[i].Scores) {
			list[i] = r.Rows[i].Scores[priority].Normalized
		}
	}
	return list
}
