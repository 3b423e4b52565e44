package abi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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
	// ReplicasEqual says that the policy takes pods that are the same in the
	// groups that it reads for the same pod: it is not sent name and UID, and a
	// pod like one that it keeps is left out.
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
	// Seed: a controller is given a number with each question, for what is to be
	// random.
	Seed bool `json:"seed,omitempty"`
}

// ObjectKind is a kind that a controller handles, and the fields of it that it
// is given, as paths such as "spec.replicas".
type ObjectKind struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Fields     []string `json:"fields"`
	// Facts are what the host works out of an object, given as fields of these
	// names: Fact… lists them.
	Facts []string `json:"facts,omitempty"`
	// By says which objects of the kind belong to a parent: By… lists the ways.
	// Children are found by owner and related objects by selector where it is
	// empty.
	By string `json:"by,omitempty"`
	// Path is the parent's field that holds the selector or the name, where it
	// is not spec.selector; with ByOrdinal the list of templates; with ByReference
	// the object's own field.
	Path string `json:"path,omitempty"`
	// Writes are the verbs that answers use on the kind: create, patch, delete.
	// Children may be created and deleted, and a parent's status written, where
	// it is empty.
	Writes []string `json:"writes,omitempty"`
	// Gone: the policy is asked about parents that are gone too, as long as it may
	// have left something at their children, and is given orphans among these that
	// are being deleted, or whose parent is. Such a parent has no resourceVersion,
	// and may have no fields; answers about it patch, release and delete children.
	Gone bool `json:"gone,omitempty"`
}

// Ways in which objects belong to a parent.
const (
	// ByOwner are those that the parent controls, and orphans in its namespace
	// that its selector matches.
	ByOwner = "owner"
	// ByName is the one in the parent's namespace with the parent's name, or with
	// the name that Path holds; where Path holds a reference, such as a
	// PersistentVolume's spec.claimRef, it is the one that this names.
	ByName = "name"
	// BySelector are those in the parent's namespace that its selector matches.
	BySelector = "selector"
	// ByChildren are those that the parent's children control.
	ByChildren = "children"
	// ByOrdinal are those in the parent's namespace that are named ITEM-PARENT-N:
	// after the name of a template in the list that Path holds, after the parent,
	// and a number.
	ByOrdinal = "ordinal"
	// ByReference are those of the cluster whose own reference at Path names the
	// parent, and those that have none there.
	ByReference = "reference"
	// ByClaim are the pods with a volume of the claim that the parent is.
	ByClaim = "claim"
	// ByNamespace are all in the parent's namespace.
	ByNamespace = "namespace"
	// ByCluster are all of the cluster.
	ByCluster = "cluster"
	// ByTarget are those that the parent's target selects: the object of an earlier
	// related kind that the reference at Path names by kind and name, such as
	// spec.scaleTargetRef. What changes among them makes the host ask nothing.
	ByTarget = "target"
)

// What the host works out of objects.
const (
	// FactTemplateHash is the label pod-template-hash that a Deployment gives to
	// a ReplicaSet of its spec.template: of the template and of
	// status.collisionCount.
	FactTemplateHash = "template.hash"
	// FactTemplateID is the same for two objects whose spec.template is the same
	// but for the label pod-template-hash.
	FactTemplateID = "template.id"
	// FactTemplateRevision is what a ControllerRevision keeps in data of the
	// object's spec.template, as JSON.
	FactTemplateRevision = "template.revision"
	// FactPod are phase, readiness, node, restarts and addresses of a Pod in a form
	// that is cheap to read: thousands of pods fit one question.
	FactPod = "pod"
	// FactNodeZone is the zone of a pod's node.
	FactNodeZone = "node.zone"
	// FactPodPorts are the named ports of a pod's containers, as an object such as
	// {"http/TCP":8080}.
	FactPodPorts = "pod.ports"
	// FactPodClaims are the PersistentVolumeClaims of a pod's volumes, as an object
	// such as {"data":"data-web-0"}; absent where it has none.
	FactPodClaims = "pod.claims"
	// FactStorage is how many bytes a PersistentVolumeClaim asks for, or a
	// PersistentVolume has, as a number.
	FactStorage = "storage"
	// FactPodUsage is what a pod's containers use of CPU and memory, in thousandths,
	// as it was measured over a window that ended at a time, in nanoseconds: an
	// object such as {"time":1767225600000000000,"window":15000000000,
	// "containers":{"web":{"cpu":250,"memory":1048576000}}}; absent where nobody
	// measured the whole pod.
	FactPodUsage = "pod.usage"
	// FactPodRequests are what a pod requests of CPU and memory, in thousandths:
	// its containers and sidecars, in the order of the spec, and "pod" where the
	// pod as a whole requests something:
	// {"containers":[{"name":"web","requests":{"cpu":100}}],"pod":{"cpu":500}}.
	FactPodRequests = "pod.requests"
	// FactMemory is what the last answer about a parent asked to keep; absent
	// after a restart of the host.
	FactMemory = "memory"
	// FactMetrics is, of a HorizontalPodAutoscaler, what adapters answered about its
	// metrics of the types Pods, Object and External: a list in the order of
	// spec.metrics, with null for other types, and such as
	// [{"pods":{"web-0":"1500"}},{"value":"250","selector":"nil"},
	// {"values":["1000"],"selector":"nil"},{"error":"…"}]. Amounts are in thousandths,
	// as texts. It is absent where there is none to ask for.
	FactMetrics = "metrics"
	// FactZone is the time zone of an object with a schedule: of the TZ= or CRON_TZ=
	// that spec.schedule begins with, else of spec.timeZone, else the host's own.
	// It is a list of pairs such as [[1767225600,3600],[1774746000,7200]]: since
	// when, in seconds since 1970, its clocks are how many seconds before UTC,
	// from the year of the object's creation to twelve years from now. It is absent
	// where nobody knows the zone.
	FactZone = "zone"
	// FactPodEnd is how a pod came to its end, as an object such as
	// {"at":"2026-03-01T12:00:00Z","exits":[{"container":"c","code":3}],
	// "conditions":[{"type":"DisruptionTarget","status":"True"}]}: "at" is when, of
	// a pod that has ended or is being deleted, and exits are the codes other than
	// 0; the members stand in that order. A pod that does neither has the conditions alone that not every pod has; a
	// pod of which there is nothing to say has no such fact.
	FactPodEnd = "pod.end"
	// FactPodRestarts is how often all containers of a pod were restarted together;
	// absent where that is never.
	FactPodRestarts = "pod.restarts"
)

var (
	childWays   = []string{"", ByOwner, ByName}
	relatedWays = []string{"", BySelector, ByName, ByChildren, ByOrdinal, ByReference, ByClaim, ByNamespace, ByCluster, ByTarget}
	facts       = []string{FactTemplateHash, FactTemplateID, FactTemplateRevision, FactPod, FactNodeZone, FactPodPorts, FactPodClaims, FactPodEnd, FactPodRestarts, FactPodUsage, FactPodRequests, FactStorage, FactZone, FactMemory, FactMetrics}
	writeVerbs  = []string{"create", "patch", "delete"}
)

// May tells whether the manifest says that answers use a verb on the kind.
func (k *ObjectKind) May(verb string) bool { return slices.Contains(k.Writes, verb) }

func (k *ObjectKind) check(ways []string) error {
	if k.Kind == "" {
		return errors.New("a kind has no name")
	}
	if !slices.Contains(ways, k.By) {
		return fmt.Errorf("%s: by is %.32q, want one of %q", k.Kind, k.By, ways[1:])
	}
	for _, f := range k.Facts {
		if !slices.Contains(facts, f) {
			return fmt.Errorf("%s: fact %.64q is none of %q", k.Kind, f, facts)
		}
	}
	for _, verb := range k.Writes {
		if !slices.Contains(writeVerbs, verb) {
			return fmt.Errorf("%s: writes has %.32q, want %q", k.Kind, verb, writeVerbs)
		}
	}
	return nil
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
		return p.checkKinds()
	}
	return fmt.Errorf("unknown kind %.64q", p.Kind)
}

func (p *Policy) checkKinds() error {
	if err := p.Parent.check([]string{""}); err != nil {
		return fmt.Errorf("parent: %w", err)
	}
	for i := range p.Children {
		k := &p.Children[i]
		if err := k.check(childWays); err != nil {
			return fmt.Errorf("children: %w", err)
		}
		if len(k.Writes) == 0 {
			k.Writes = []string{"create", "delete"}
		}
	}
	for i := range p.Related {
		if err := p.Related[i].check(relatedWays); err != nil {
			return fmt.Errorf("related: %w", err)
		}
	}
	return nil
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
