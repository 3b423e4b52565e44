package row

import "github.com/berth-dev/berth/sdk/facts"

// NodeMatcher judges rows by a pod's node selector and node affinity. Begin
// resolves the label columns that it needs, once a cycle.
type NodeMatcher struct {
	rows     *Table
	selector []facts.Pair
	columns  [][]facts.Symbol // of selector
	terms    []matcherTerm
	required bool
	reqs     []matcherReq
}

type matcherTerm struct {
	weight int64
	reqs   []matcherReq
}

type matcherReq struct {
	column []facts.Symbol
	req    *facts.Requirement
	name   bool // it is about the node's name
}

// NewNodeMatcher makes a matcher over rows.
func NewNodeMatcher(rows *Table) *NodeMatcher { return &NodeMatcher{rows: rows} }

// Require takes in what the pod requires of nodes. Empty says that it
// requires nothing.
func (m *NodeMatcher) Require(p *facts.Pod) (empty bool) {
	m.RequireTerms(p.NodeSelector, p.HasRequired, p.Required)
	return len(p.NodeSelector) == 0 && !p.HasRequired
}

// RequireTerms takes in a selector, and terms of which one must match if
// required is set.
func (m *NodeMatcher) RequireTerms(selector []facts.Pair, required bool, terms []facts.NodeTerm) {
	m.selector, m.required = selector, required
	m.columns = m.columns[:0]
	for _, s := range selector {
		m.columns = append(m.columns, m.column(s.Key))
	}
	m.resolve(terms)
}

// Prefer takes in the terms that the pod prefers, for Weight.
func (m *NodeMatcher) Prefer(terms []facts.NodeTerm) {
	m.selector, m.required, m.columns = nil, false, m.columns[:0]
	m.resolve(terms)
}

// Depends tells what the matcher's answers depend on, besides what stands in d.
func (m *NodeMatcher) Depends(d *Depends) {
	for _, s := range m.selector {
		d.Label(s.Key, s.Value)
	}
	for i := range m.reqs {
		switch r := m.reqs[i].req; {
		case m.reqs[i].name:
			d.Name(r.Values...)
		case r.Op == facts.Gt || r.Op == facts.Lt:
			d.LabelValue(r.Key)
		default:
			d.Label(r.Key, r.Values...)
		}
	}
}

func (m *NodeMatcher) resolve(terms []facts.NodeTerm) {
	m.terms, m.reqs = m.terms[:0], m.reqs[:0]
	for i := range terms {
		t := &terms[i]
		start := len(m.reqs)
		for k := range t.Labels {
			m.reqs = append(m.reqs, matcherReq{m.column(t.Labels[k].Key), &t.Labels[k], false})
		}
		for k := range t.Names {
			m.reqs = append(m.reqs, matcherReq{m.rows.Name, &t.Names[k], true})
		}
		m.terms = append(m.terms, matcherTerm{int64(t.Weight), m.reqs[start:len(m.reqs):len(m.reqs)]})
	}
}

// column is a label's column; a pod with more keys than there are columns
// still works, since a column that was displaced stays as it is for the cycle.
func (m *NodeMatcher) column(key facts.Symbol) []facts.Symbol { return m.rows.LabelColumn(key) }

// Selected says whether the row has what the pod's node selector asks for.
func (m *NodeMatcher) Selected(slot int32) bool {
	for i := range m.selector {
		if m.columns[i][slot] != m.selector[i].Value {
			return false
		}
	}
	return true
}

// Matches says whether the row meets selector and terms.
func (m *NodeMatcher) Matches(slot int32) bool {
	if !m.Selected(slot) {
		return false
	}
	if !m.required {
		return true
	}
	for i := range m.terms {
		if m.term(&m.terms[i], slot) {
			return true
		}
	}
	return false
}

// Weight is the sum of the weights of the terms that the row matches.
func (m *NodeMatcher) Weight(slot int32) (sum int64) {
	for i := range m.terms {
		if m.term(&m.terms[i], slot) {
			sum += m.terms[i].weight
		}
	}
	return sum
}

// MatchRows writes one byte for each slot: 0 where it matches, else refused.
// One label that must have one value, the commonest of all, is one loop over
// one column.
func (m *NodeMatcher) MatchRows(slots []int32, verdicts []uint8, refused uint8) {
	if !m.required && len(m.selector) == 1 {
		column, want := m.columns[0], m.selector[0].Value
		for i, slot := range slots {
			verdicts[i] = refused
			if column[slot] == want {
				verdicts[i] = 0
			}
		}
		return
	}
	for i, slot := range slots {
		verdicts[i] = refused
		if m.Matches(slot) {
			verdicts[i] = 0
		}
	}
}

// term: one without requirements matches nothing.
func (m *NodeMatcher) term(t *matcherTerm, slot int32) bool {
	for i := range t.reqs {
		if !t.reqs[i].req.Holds(m.rows.Symbols, t.reqs[i].column[slot]) {
			return false
		}
	}
	return len(t.reqs) > 0
}
