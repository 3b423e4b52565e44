package sdk

import (
	"errors"
	"slices"
)

// Matches says whether the labels meet the selector. An absent selector
// matches nothing, an empty one everything.
func (s *Selector) Matches(syms *Symbols, labels []Pair) bool {
	if !s.Present {
		return false
	}
	for i := range s.Reqs {
		r := &s.Reqs[i]
		if !r.Holds(syms, (Labels{Pairs: labels}).Value(r.Key)) {
			return false
		}
	}
	return true
}

// Clone is a copy that may be kept.
func (s Selector) Clone() Selector {
	s.Reqs = slices.Clone(s.Reqs)
	for i := range s.Reqs {
		s.Reqs[i].Values = slices.Clone(s.Reqs[i].Values)
	}
	return s
}

// Clone is a copy that may be kept.
func (t PodTerm) Clone() PodTerm {
	t.Selector, t.NamespaceSelector = t.Selector.Clone(), t.NamespaceSelector.Clone()
	t.Namespaces = slices.Clone(t.Namespaces)
	return t
}

// Holds says whether a label's value, NoSymbol for none, meets the
// requirement. Gt and Lt compare decimal integers; what is none meets neither.
func (r *Requirement) Holds(syms *Symbols, value Symbol) bool {
	switch r.Op {
	case In:
		return value != NoSymbol && slices.Contains(r.Values, value)
	case NotIn:
		return value == NoSymbol || !slices.Contains(r.Values, value)
	case Exists:
		return value != NoSymbol
	case DoesNotExist:
		return value == NoSymbol
	}
	if value == NoSymbol || len(r.Values) != 1 {
		return false
	}
	want, ok := parseInt(syms.String(r.Values[0]))
	have, ok2 := parseInt(syms.String(value))
	if !ok || !ok2 {
		return false
	}
	if r.Op == Gt {
		return have > want
	}
	return have < want
}

// NodeMatcher judges rows by a pod's node selector and node affinity. Begin
// resolves the label columns that it needs, once a cycle.
type NodeMatcher struct {
	rows     *Rows
	selector []Pair
	columns  [][]Symbol // of selector
	terms    []matcherTerm
	required bool
	reqs     []matcherReq
}

type matcherTerm struct {
	weight int64
	reqs   []matcherReq
}

type matcherReq struct {
	column []Symbol
	req    *Requirement
}

// NewNodeMatcher makes a matcher over rows.
func NewNodeMatcher(rows *Rows) *NodeMatcher { return &NodeMatcher{rows: rows} }

// Require takes in what the pod requires of nodes. Empty says that it
// requires nothing.
func (m *NodeMatcher) Require(p *Pod) (empty bool) {
	m.RequireTerms(p.NodeSelector, p.HasRequired, p.Required)
	return len(p.NodeSelector) == 0 && !p.HasRequired
}

// RequireTerms takes in a selector, and terms of which one must match if
// required is set.
func (m *NodeMatcher) RequireTerms(selector []Pair, required bool, terms []NodeTerm) {
	m.selector, m.required = selector, required
	m.columns = m.columns[:0]
	for _, s := range selector {
		m.columns = append(m.columns, m.column(s.Key))
	}
	m.resolve(terms)
}

// Prefer takes in the terms that the pod prefers, for Weight.
func (m *NodeMatcher) Prefer(terms []NodeTerm) {
	m.selector, m.required, m.columns = nil, false, m.columns[:0]
	m.resolve(terms)
}

func (m *NodeMatcher) resolve(terms []NodeTerm) {
	m.terms, m.reqs = m.terms[:0], m.reqs[:0]
	for i := range terms {
		t := &terms[i]
		start := len(m.reqs)
		for k := range t.Labels {
			m.reqs = append(m.reqs, matcherReq{m.column(t.Labels[k].Key), &t.Labels[k]})
		}
		for k := range t.Names {
			m.reqs = append(m.reqs, matcherReq{m.rows.Name, &t.Names[k]})
		}
		m.terms = append(m.terms, matcherTerm{int64(t.Weight), m.reqs[start:len(m.reqs):len(m.reqs)]})
	}
}

// column is a label's column; a pod with more keys than there are columns
// still works, since a column that was displaced stays as it is for the cycle.
func (m *NodeMatcher) column(key Symbol) []Symbol { return m.rows.LabelColumn(key) }

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
func (m *NodeMatcher) MatchRows(slots []int32, verdicts []ReasonID, refused ReasonID) {
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

// NodeTerms reads node selector terms, as Kubernetes writes them, from the
// list under key.
func NodeTerms(c Config, key string, syms *Symbols) ([]NodeTerm, error) {
	items, err := c.List(key)
	if err != nil {
		return nil, err
	}
	var terms []NodeTerm
	for _, i := range items {
		if err := i.OnlyKeys("matchExpressions", "matchFields"); err != nil {
			return nil, err
		}
		var t NodeTerm
		if t.Labels, err = requirements(i, "matchExpressions", syms); err != nil {
			return nil, err
		}
		if t.Names, err = requirements(i, "matchFields", syms); err != nil {
			return nil, err
		}
		terms = append(terms, t)
	}
	return terms, nil
}

func requirements(c Config, key string, syms *Symbols) ([]Requirement, error) {
	items, err := c.List(key)
	if err != nil {
		return nil, err
	}
	var reqs []Requirement
	for _, i := range items {
		values, err := i.Texts("values")
		if err != nil {
			return nil, err
		}
		op, ok := opNamed(i.String("operator", ""))
		if !ok {
			return nil, errors.New("operator must be In, NotIn, Exists, DoesNotExist, Gt or Lt")
		}
		r := Requirement{Key: syms.Intern(i.String("key", "")), Op: op}
		for _, v := range values {
			r.Values = append(r.Values, syms.Intern(v))
		}
		reqs = append(reqs, r)
	}
	return reqs, nil
}

func opNamed(name string) (Op, bool) {
	for i, n := range [...]string{"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"} {
		if n == name {
			return Op(i), true
		}
	}
	return 0, false
}

// LabelSelector reads a label selector as Kubernetes writes it. Null gives an
// absent one, which matches nothing.
func LabelSelector(c Config, syms *Symbols) (s Selector, err error) {
	if c.IsNull() {
		return Selector{}, nil
	}
	labels := c.Object("matchLabels")
	for key, v := range labels.All {
		value, ok := v.Text()
		if !ok {
			return Selector{}, errors.New("matchLabels must hold strings")
		}
		s.Reqs = append(s.Reqs, Requirement{Key: syms.Intern(key), Values: []Symbol{syms.Intern(value)}})
	}
	more, err := requirements(c, "matchExpressions", syms)
	s.Present, s.Reqs = true, append(s.Reqs, more...)
	return s, err
}
