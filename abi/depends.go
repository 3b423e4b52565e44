package abi

import (
	"fmt"
	"slices"
	"strings"
)

// Depends is what a policy's answers about the pod of the cycle depend on of a
// node, where that is less than all that the policy reads: berth_depends answers it.
type Depends struct {
	// Groups are those of which anything may matter.
	Groups Groups
	// Labels are those that matter where Groups lacks node.labels, by key, sorted;
	// the one with the key "" is the node's name.
	Labels []LabelDepends
}

// LabelDepends is what matters of one label: its value, or only whether it is there
// and which of Values it has.
type LabelDepends struct {
	Key    string
	Any    bool
	Values []string // sorted
}

// Limits of what berth_depends answers.
const (
	MaxDepends       = 64 << 10
	MaxDependsLabels = 64
)

// ReadDepends reads what berth_depends answered of a policy that reads some groups.
// It is nil where answers depend on all of them.
func ReadDepends(b []byte, reads Groups) (*Depends, error) {
	var in *struct {
		Groups []string             `json:"groups"`
		Labels map[string]*[]string `json:"labels"`
		Name   *[]string            `json:"name"`
	}
	if err := readJSON(b, MaxDepends, &in); err != nil {
		return nil, fmt.Errorf("berth_depends: %w", err)
	}
	if in == nil {
		return nil, nil
	}
	d := &Depends{}
	groups, err := ParseGroups(in.Groups)
	if err != nil {
		return nil, fmt.Errorf("berth_depends: %w", err)
	}
	if d.Groups = groups; groups&^(NodeGroups|NodeName) != 0 || groups&^reads != 0 {
		return nil, fmt.Errorf("berth_depends: groups are %s: only those of nodes that the policy reads may stand there", strings.Join(in.Groups, ", "))
	}
	if len(in.Labels) > MaxDependsLabels {
		return nil, fmt.Errorf("berth_depends: %d labels, at most %d", len(in.Labels), MaxDependsLabels)
	}
	for key, values := range in.Labels {
		if key == "" || reads&NodeLabels == 0 {
			return nil, fmt.Errorf("berth_depends: label %.64q: the policy has to read node.labels, and a label has a key", key)
		}
		if groups&NodeLabels == 0 {
			d.Labels = append(d.Labels, labelDepends(key, values))
		}
	}
	if in.Name != nil && groups&NodeName == 0 {
		if reads&NodeName == 0 {
			return nil, fmt.Errorf("berth_depends: name: the policy does not read node.name")
		}
		d.Labels = append(d.Labels, labelDepends("", in.Name))
	}
	slices.SortFunc(d.Labels, func(a, b LabelDepends) int { return strings.Compare(a.Key, b.Key) })
	return d, nil
}

func labelDepends(key string, values *[]string) LabelDepends {
	if values == nil {
		return LabelDepends{Key: key, Any: true}
	}
	slices.Sort(*values)
	return LabelDepends{Key: key, Values: slices.Compact(*values)}
}

// Covers says whether all that o depends on is in d. Nil is all there is.
func (d *Depends) Covers(o *Depends) bool {
	switch {
	case d == nil:
		return true
	case o == nil || o.Groups&^d.Groups != 0:
		return false
	}
	for _, l := range o.Labels {
		if !d.coversLabel(l) {
			return false
		}
	}
	return true
}

func (d *Depends) coversLabel(l LabelDepends) bool {
	whole := NodeLabels
	if l.Key == "" {
		whole = NodeName
	}
	if d.Groups&whole != 0 {
		return true
	}
	i, found := slices.BinarySearchFunc(d.Labels, l.Key, func(a LabelDepends, key string) int { return strings.Compare(a.Key, key) })
	if !found {
		return false
	}
	if own := d.Labels[i]; !own.Any {
		return !l.Any && !slices.ContainsFunc(l.Values, func(v string) bool { return !slices.Contains(own.Values, v) })
	}
	return true
}

// Union is what depends on either; nil, all there is, if one of them does.
func (d *Depends) Union(o *Depends) *Depends {
	if d == nil || o == nil {
		return nil
	}
	u := &Depends{Groups: d.Groups | o.Groups}
	for _, l := range append(slices.Clone(d.Labels), o.Labels...) {
		u.add(l)
	}
	slices.SortFunc(u.Labels, func(a, b LabelDepends) int { return strings.Compare(a.Key, b.Key) })
	return u
}

func (d *Depends) add(l LabelDepends) {
	if l.Key == "" && d.Groups&NodeName != 0 || l.Key != "" && d.Groups&NodeLabels != 0 {
		return
	}
	for i := range d.Labels {
		if own := &d.Labels[i]; own.Key == l.Key {
			own.Any = own.Any || l.Any
			own.Values = slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(own.Values), l.Values...))))
			if own.Any {
				own.Values = nil
			}
			return
		}
	}
	d.Labels = append(d.Labels, l)
}
