package abi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Manifest is what a module says of itself.
type Manifest struct {
	ABI      int      `json:"abi"`
	Module   string   `json:"module"`
	Version  string   `json:"version"`
	Policies []Policy `json:"policies"`
	// Counters are what the module counts for /metrics; berth.count names them
	// by their place here.
	Counters []Counter `json:"counters,omitempty"`
}

// Counter is something that a module counts.
type Counter struct {
	Name string `json:"name"`
	Help string `json:"help,omitempty"`
}

// Policy is one policy of a module.
type Policy struct {
	Name        string   `json:"name"`
	Kind        string   `json:"kind"`
	Description string   `json:"description,omitempty"`
	Reads       []string `json:"reads"`
	Scope       string   `json:"scope"`
	Normalize   string   `json:"normalize,omitempty"`
	// SkipDependsOn are the groups on which it depends whether the policy skips a
	// pod; all that it reads where it does not say.
	SkipDependsOn []string `json:"skipDependsOn,omitempty"`
	// Alike says that the policy takes pods that are the same in the groups
	// that it reads for the same pod: it is not sent name and UID, and a pod
	// like the one sent last is left out.
	ReplicasEqual bool            `json:"replicasEqual,omitempty"`
	Config        json.RawMessage `json:"configSchema,omitempty"`
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
	if len(m.Policies) == 0 {
		return nil, errors.New("manifest: the module registers no policy; in Go, init calls sdk.Predicate, sdk.Priority, sdk.Gate or sdk.Controller")
	}
	if len(m.Policies) > MaxPolicies {
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
	if err := checkCounters(m.Counters); err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	return m, nil
}

func checkCounters(list []Counter) error {
	if len(list) > MaxCounters {
		return fmt.Errorf("%d counters, at most %d", len(list), MaxCounters)
	}
	seen := map[string]bool{}
	for _, c := range list {
		if !counterName(c.Name) || seen[c.Name] {
			return fmt.Errorf("counter %.64q: a name is 1 to %d of a-z, 0-9 and '_', begins with a letter, and stands once", c.Name, MaxName)
		}
		if len(c.Help) > MaxReason {
			return fmt.Errorf("counter %s: its help has more than %d bytes", c.Name, MaxReason)
		}
		seen[c.Name] = true
	}
	return nil
}

func counterName(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c != '_' && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return s != "" && len(s) <= MaxName && s[0] >= 'a'
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

// Skips is what it depends on whether the policy skips a pod.
func (p *Policy) SkipDependsOnGroups() Groups {
	if len(p.SkipDependsOn) == 0 {
		return p.Groups()
	}
	g, _ := p.skips()
	return g
}

// skips reads SkipDependsOn, which names some of what the policy reads.
func (p *Policy) skips() (g Groups, err error) {
	allowed := p.Groups()
	if allowed&Pods != 0 {
		allowed |= PodTerms
	}
	for _, name := range p.SkipDependsOn {
		one := PodTerms
		if name != podTermsName {
			if one, err = ParseGroups([]string{name}); err != nil {
				return 0, fmt.Errorf("skipDependsOn: %w", err)
			}
		}
		if one&allowed == 0 {
			return 0, fmt.Errorf("skipDependsOn: the policy does not read %q", name)
		}
		g |= one
	}
	return g, nil
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
	if _, err := p.skips(); err != nil {
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
		return CheckObserves(p.Observe)
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
