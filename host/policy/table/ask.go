package table

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/sandbox"
	"github.com/berth-dev/berth/host/policy/schema"
	"github.com/berth-dev/berth/host/schedule/cycle"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// Guest is a policy that answers tables.
type Guest struct {
	Kind    string
	Name    string
	reasons *framework.Reasons
	program *sandbox.Program
	box     *sandbox.Sandbox
}

// Open opens the policy that a table is about. Closing it closes the module.
func Open(m *engine.Module, t *Table) (*Guest, error) {
	manifest, err := abi.ReadManifest(m.Manifest())
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range manifest.Policies {
		names = append(names, manifest.Policies[i].Name)
	}
	name := t.Policy
	if name == "" && len(names) == 1 {
		name = names[0]
	}
	entry := manifest.Find(name)
	switch {
	case entry == nil:
		return nil, fmt.Errorf("the module has no policy %q: it has %s", name, strings.Join(names, ", "))
	case entry.Kind != abi.KindPredicate && entry.Kind != abi.KindPriority:
		return nil, fmt.Errorf("%s is a %s, and such tables are for predicates and priorities: write its table in Go (sdk/policytest)", name, entry.Kind)
	}
	if err := schema.Check(entry.Config, t.Config, "config"); err != nil {
		return nil, fmt.Errorf("the config is not what the policy's schema wants: %w", err)
	}
	g := &Guest{Kind: entry.Kind, Name: name, reasons: framework.NewReasons(0)}
	spec := sandbox.Spec{Name: name, Module: m, Entry: entry, Counters: manifest.Counters, Config: t.Config, Limits: t.Limits}
	g.program, err = sandbox.NewProgram(spec, g.reasons, sandbox.NewHealth(func() {}), new(sandbox.GuestLog), slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	g.box = sandbox.New(g.program)
	return g, nil
}

// Close gives back what the guest holds.
func (g *Guest) Close() {
	g.box.Close()
	g.program.Release()
}

// Figures are what it has used.
func (g *Guest) Figures() sandbox.Figures { return g.program.Figures() }

// Answer is what a policy says of a node.
type Answer struct {
	Node string `json:"node"`
	// Reason is why a predicate refuses it; empty admits.
	Reason string `json:"reason,omitempty"`
	// Score is a priority's, as the guest gave it.
	Score *int64 `json:"score,omitempty"`
}

// Cluster has the table's nodes, over and over until there are n, and its pods.
func (t *Table) Cluster(n int) *snapshot.Cluster {
	c := snapshot.New(0)
	for i := range n {
		node := t.Nodes[i%len(t.Nodes)].DeepCopy()
		if i >= len(t.Nodes) {
			node.Name = fmt.Sprintf("%s-%d", node.Name, i/len(t.Nodes))
		}
		c.UpsertNode(complete(node))
	}
	for i := range t.Pods {
		pod := t.Pods[i].DeepCopy()
		named(pod, fmt.Sprintf("placed-%d", i))
		c.Place(snapshot.NewPod(pod), pod.Spec.NodeName)
	}
	return c
}

func complete(node *v1.Node) *v1.Node {
	if node.Status.Allocatable == nil {
		node.Status.Allocatable = v1.ResourceList{
			v1.ResourceCPU: resource.MustParse("16"), v1.ResourceMemory: resource.MustParse("64Gi"), v1.ResourcePods: resource.MustParse("110"),
		}
		node.Status.Conditions = append(node.Status.Conditions, v1.NodeCondition{Type: v1.NodeReady, Status: v1.ConditionTrue})
	}
	return node
}

// named gives a pod what every pod has.
func named(pod *v1.Pod, name string) {
	if pod.Name == "" {
		pod.Name = name
	}
	if pod.Namespace == "" {
		pod.Namespace = v1.NamespaceDefault
	}
	if pod.UID == "" {
		pod.UID = types.UID(name)
	}
	if len(pod.Spec.Containers) == 0 {
		pod.Spec.Containers = []v1.Container{{Name: "c", Image: "c"}}
	}
}

// Ask asks about a case's pod and all nodes of a cluster.
func (g *Guest) Ask(ctx context.Context, cluster *snapshot.Cluster, c *Case) ([]Answer, error) {
	pod := c.Pod.DeepCopy()
	named(pod, "asked")
	now := time.Now()
	if c.Now != nil {
		now = c.Now.Time
	}
	p := &framework.Profile{Name: g.Name}
	if g.Kind == abi.KindPriority {
		p.Priorities = []framework.ProfilePriority{{Policy: g.box, Weight: 1}}
	} else {
		p.Predicates = []framework.ProfilePredicate{{Policy: g.box}}
	}
	table, err := cycle.Judge(ctx, p, g.reasons, cluster, snapshot.NewPod(pod), now.UnixNano())
	if err != nil {
		return nil, err
	}
	answers := make([]Answer, len(table.Rows))
	for i, slot := range table.Rows {
		answers[i].Node = cluster.Row(slot).Node.Name
		if g.Kind == abi.KindPriority {
			answers[i].Score = &table.Priorities[0].Raw[i]
		} else if table.Predicates[0].Reasons[i] != 0 {
			answers[i].Reason = table.Predicates[0].Text(g.reasons, i)
		}
	}
	if g.Kind == abi.KindPriority {
		return answers, table.Priorities[0].Err
	}
	return answers, table.Predicates[0].Err
}

// Failure is an answer that is not the one that a table wants.
type Failure struct {
	// At is the line of the table, as FILE:LINE.
	At, Message string
}

// Try asks a case of the table, and returns where the answers are others.
func (g *Guest) Try(ctx context.Context, t *Table, c *Case) ([]Failure, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	answers, err := g.Ask(ctx, t.Cluster(len(t.Nodes)), c)
	if err != nil {
		return nil, err
	}
	got := map[string]Answer{}
	for _, a := range answers {
		got[a.Node] = a
	}
	var failures []Failure
	differ := func(node, format string, args ...any) {
		failures = append(failures, Failure{c.Lines[node], fmt.Sprintf(format, args...)})
	}
	for _, node := range slices.Sorted(maps.Keys(c.Want)) {
		if g.Kind != abi.KindPredicate {
			differ(node, "%s is a priority: give scores, not want", g.Name)
		} else if is := got[node].Reason; is != c.Want[node] {
			differ(node, "of %s it says %q, want %q", node, is, c.Want[node])
		}
	}
	for _, node := range slices.Sorted(maps.Keys(c.Scores)) {
		if g.Kind != abi.KindPriority {
			differ(node, "%s is a predicate: give want, not scores", g.Name)
		} else if is := *got[node].Score; is != c.Scores[node] {
			differ(node, "%s gets %d, want %d", node, is, c.Scores[node])
		}
	}
	return failures, nil
}
