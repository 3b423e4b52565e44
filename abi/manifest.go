package abi

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Manifest is what a module says of itself.
type Manifest struct {
	ABI      int      `json:"abi"`
	Module   string   `json:"module"`
	Version  string   `json:"version"`
	Policies []Policy `json:"policies"`
}

// Policy is one policy of a module.
type Policy struct {
	Name        string          `json:"name"`
	Kind        string          `json:"kind"`
	Description string          `json:"description,omitempty"`
	Reads       []string        `json:"reads"`
	Scope       string          `json:"scope"`
	Normalize   string          `json:"normalize,omitempty"`
	Config      json.RawMessage `json:"configSchema,omitempty"`
	// ConditionTypes are those that a gate answers for.
	ConditionTypes []string `json:"conditionTypes,omitempty"`
	// Observe is what a gate wants to know of each pod; its config may name
	// others under the same key.
	Observe []Observe `json:"observe,omitempty"`
	// Parent, Children and Related are a controller's kinds.
	Parent   *ObjectKind  `json:"parent,omitempty"`
	Children []ObjectKind `json:"children,omitempty"`
	Related  []ObjectKind `json:"related,omitempty"`
}

// Observe is something that the host looks at for a gate, since a guest can
// reach nothing.
type Observe struct {
	Name string `json:"name"`
	// Kind is http, tcp, pods or node.
	Kind string `json:"kind"`
	// Port and Path are for http and tcp, to the pod's own address.
	Port int32  `json:"port,omitempty"`
	Path string `json:"path,omitempty"`
	// Selector and Namespace are for pods: how many match, and are ready. The
	// pod's own namespace is the default.
	Selector  string `json:"selector,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	// Condition is for node: a condition of the pod's node.
	Condition string `json:"condition,omitempty"`
	// TimeoutSeconds bounds an attempt; 1 by default, 10 at most.
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
}

// ObjectKind is a kind that a controller handles, and the fields of it that it
// is given, as paths such as "spec.replicas".
type ObjectKind struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Fields     []string `json:"fields"`
}

// Kinds of policies.
const (
	KindPredicate  = "predicate"
	KindPriority   = "priority"
	KindGate       = "gate"
	KindController = "controller"
)

// ReadManifest reads what berth_manifest answered, and checks all of it: a
// policy of the result has a known kind, groups, scope and normalisation.
func ReadManifest(b []byte) (*Manifest, error) {
	m := &Manifest{}
	if err := readJSON(b, MaxManifest, m); err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	if m.ABI != Version {
		return nil, fmt.Errorf("manifest: the module is for ABI %d, this host speaks %d", m.ABI, Version)
	}
	if len(m.Policies) == 0 || len(m.Policies) > MaxPolicies {
		return nil, fmt.Errorf("manifest: %d policies, want 1 to %d", len(m.Policies), MaxPolicies)
	}
	seen := map[string]bool{}
	for i := range m.Policies {
		p := &m.Policies[i]
		if seen[p.Name] {
			return nil, fmt.Errorf("manifest: policy %q stands twice", p.Name)
		}
		seen[p.Name] = true
		if err := p.check(); err != nil {
			return nil, fmt.Errorf("manifest: policy %q: %w", p.Name, err)
		}
	}
	return m, nil
}

// Find returns the policy of that name, nil if the module has none.
func (m *Manifest) Find(name string) *Policy {
	for i := range m.Policies {
		if m.Policies[i].Name == name {
			return &m.Policies[i]
		}
	}
	return nil
}

// Groups is what the policy reads.
func (p *Policy) Groups() Groups {
	g, _ := ParseGroups(p.Reads)
	return g
}

// ScopeOf is the policy's scope. One that reads cluster objects or the time is
// always of scope set, whatever it says: its answers cannot be remembered by row.
func (p *Policy) ScopeOf() Scope {
	if p.Scope == "set" || p.Groups()&(ClusterGroups|Time) != 0 {
		return ScopeSet
	}
	return ScopeRow
}

// Normalization is a priority's way to 0…100.
func (p *Policy) Normalization() Normalization {
	for i, name := range NormalizationNames {
		if name == p.Normalize {
			return Normalization(i)
		}
	}
	return NormalizeNone
}

// ParseGroups turns names into a set.
func ParseGroups(names []string) (g Groups, err error) {
next:
	for _, name := range names {
		for i, known := range GroupNames {
			if name == known {
				g |= 1 << i
				continue next
			}
		}
		return 0, fmt.Errorf("unknown group %.64q", name)
	}
	return g, nil
}

func (p *Policy) check() error {
	if !validName(p.Name) {
		return fmt.Errorf("the name must be 1 to %d letters, digits, '-', '.' or '_'", MaxName)
	}
	if _, err := ParseGroups(p.Reads); err != nil {
		return err
	}
	if p.Scope != "" && p.Scope != "row" && p.Scope != "set" {
		return fmt.Errorf("unknown scope %.64q", p.Scope)
	}
	if p.Normalize != "" && p.Normalize != "none" && p.Normalization() == NormalizeNone {
		return fmt.Errorf("unknown normalisation %.64q", p.Normalize)
	}
	return p.checkKind()
}

func (p *Policy) checkKind() error {
	switch p.Kind {
	case KindPredicate, KindPriority:
		return nil
	case KindGate:
		if len(p.ConditionTypes) == 0 {
			return fmt.Errorf("a gate needs conditionTypes")
		}
		return nil
	case KindController:
		if p.Parent == nil || p.Parent.Kind == "" {
			return fmt.Errorf("a controller needs a parent")
		}
		return nil
	}
	return fmt.Errorf("unknown kind %.64q", p.Kind)
}

func validName(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		ok := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_'
		if !ok {
			return false
		}
	}
	return s != "" && len(s) <= MaxName
}

// readJSON reads one JSON value of bounded size. Fields that this version
// does not know are passed over: later versions may add some.
func readJSON(b []byte, limit int, into any) error {
	if len(b) > limit {
		return fmt.Errorf("%d bytes, at most %d are allowed", len(b), limit)
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	if err := dec.Decode(into); err != nil {
		return fmt.Errorf("not the JSON that is asked for: %w", err)
	}
	if dec.More() {
		return fmt.Errorf("more than one JSON value")
	}
	return nil
}
