package facts

import (
	"errors"
	"slices"

	"github.com/berth-dev/berth/sdk/internal/text"
	"github.com/berth-dev/berth/sdk/json"
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
	want, ok := text.ParseInt(syms.String(r.Values[0]))
	have, ok2 := text.ParseInt(syms.String(value))
	if !ok || !ok2 {
		return false
	}
	if r.Op == Gt {
		return have > want
	}
	return have < want
}

// NodeTerms reads node selector terms, as Kubernetes writes them, from the
// list under key.
func NodeTerms(c json.Value, key string, syms *Symbols) ([]NodeTerm, error) {
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

func requirements(c json.Value, key string, syms *Symbols) ([]Requirement, error) {
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
func LabelSelector(c json.Value, syms *Symbols) (s Selector, err error) {
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
