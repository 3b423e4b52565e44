package spread

import (
	"slices"

	"github.com/berth-dev/berth/policies-wasm/placed"
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/facts"
	"github.com/berth-dev/berth/sdk/row"
)

// Part is what a constraint counts, by the parts of its topology.
type Part struct {
	Constraint *facts.SpreadConstraint
	Topology   *placed.Topology
	// Counts are the pods in each part, on nodes that count; as long as the
	// topology, or shorter where zeros follow.
	Counts []int64
	// Nodes are the nodes that count in each part, as long as the topology.
	Nodes []int32

	// tally is over all nodes, and nodes over each.
	tally, nodes *placed.Tally
	counts       []int64
	rows         []int32
}

// Of is the count in a part of the topology.
func (p *Part) Of(domain int32) int64 {
	if int(domain) >= len(p.Counts) {
		return 0
	}
	return p.Counts[domain]
}

// OnNode counts the pods that meet the constraint on one node.
func (p *Part) OnNode(slot int32) int64 { return p.nodes.At(slot) }

// Counter counts for one pod at a time, and follows rows and pods for it.
type Counter struct {
	*placed.Index
	rows    *row.Table
	matcher *row.NodeMatcher
	parts   []Part
	term    [1]facts.PodTerm
	space   [1]facts.Symbol
	// tolerated is by set of taints: 0 unknown, 1 tolerated, 2 not.
	tolerated []uint8
}

// New makes a counter over rows.
func New(rows *row.Table) *Counter {
	return &Counter{Index: placed.New(rows), rows: rows, matcher: row.NewNodeMatcher(rows)}
}

// PodPlaced counts a pod, unless it is about to go.
func (c *Counter) PodPlaced(slot int32, pod *sdk.Pod) {
	if !pod.Terminating {
		c.Place(slot, pod, nil)
	}
}

// PodRemoved takes back what PodPlaced counted.
func (c *Counter) PodRemoved(slot int32, pod *sdk.Pod) {
	if !pod.Terminating {
		c.Remove(slot, pod, nil)
	}
}

// Count counts for the pod's constraints. all asks nodes for every topology
// key; byNode says that OnNode will be called.
func (c *Counter) Count(pod *sdk.Pod, constraints []facts.SpreadConstraint, all, byNode bool) []Part {
	for len(c.parts) < len(constraints) {
		c.parts = append(c.parts, Part{})
	}
	parts := c.parts[:len(constraints)]
	free := c.matcher.Require(pod)
	c.tolerated = Zeros(c.tolerated, c.rows.TaintSets())
	walk := false
	for i := range parts {
		p := &parts[i]
		p.Constraint = &constraints[i]
		p.tally, p.nodes = c.tally(pod, p.Constraint, p.Constraint.TopologyKey), nil
		p.Topology = p.tally.Topology
		p.Counts, p.Nodes = p.tally.Counts, p.Topology.Rows
		walk = walk || p.Constraint.HonorAffinity && !free || p.Constraint.HonorTaints && c.rows.TaintSets() > 1 ||
			all && len(parts) > 1 && p.Topology.With < c.Live
	}
	if walk || byNode {
		for i := range parts {
			parts[i].nodes = c.tally(pod, parts[i].Constraint, facts.NoSymbol)
		}
	}
	if walk {
		c.walk(pod, parts, all)
	}
	return parts
}

// tally counts what meets a constraint. An empty selector counts nothing here,
// though it takes the pod itself in the predicate.
func (c *Counter) tally(pod *sdk.Pod, s *facts.SpreadConstraint, key facts.Symbol) *placed.Tally {
	c.space[0] = pod.Namespace
	c.term[0] = facts.PodTerm{Selector: s.Selector, Namespaces: c.space[:]}
	if len(s.Selector.Reqs) == 0 {
		c.term[0].Selector = facts.Selector{}
	}
	return c.Matching(key, c.term[:])
}

// walk counts on the nodes that count.
func (c *Counter) walk(pod *sdk.Pod, parts []Part, all bool) {
	for i := range parts {
		p := &parts[i]
		n := p.Topology.Len()
		p.counts, p.rows = Zeros(p.counts, n), Zeros(p.rows, n)
		p.Counts, p.Nodes = p.counts, p.rows
	}
	for slot, live := range c.rows.Live {
		if !live || all && !HasAll(parts, int32(slot)) {
			continue
		}
		c.countRow(pod, parts, int32(slot))
	}
}

func (c *Counter) countRow(pod *sdk.Pod, parts []Part, slot int32) {
	selected, asked := false, false
	for i := range parts {
		p := &parts[i]
		domain := p.Topology.Domain[slot]
		if domain < 0 || p.Constraint.HonorTaints && !c.tolerates(pod, slot) {
			continue
		}
		if p.Constraint.HonorAffinity && !asked {
			selected, asked = c.matcher.Matches(slot), true
		}
		if p.Constraint.HonorAffinity && !selected {
			continue
		}
		p.rows[domain]++
		p.counts[domain] += p.nodes.At(slot)
	}
}

// HasAll says whether a node has the topology keys of all parts.
func HasAll(parts []Part, slot int32) bool {
	for i := range parts {
		if parts[i].Topology.Domain[slot] < 0 {
			return false
		}
	}
	return true
}

// tolerates says whether no taint keeps the pod off the node.
func (c *Counter) tolerates(pod *sdk.Pod, slot int32) bool {
	set := c.rows.TaintSet[slot]
	if c.tolerated[set] == 0 {
		c.tolerated[set] = 1
		if slices.ContainsFunc(c.rows.TaintSetOf(set), func(t facts.Taint) bool {
			return (t.Effect == facts.NoSchedule || t.Effect == facts.NoExecute) && !pod.Tolerates(t)
		}) {
			c.tolerated[set] = 2
		}
	}
	return c.tolerated[set] == 1
}

// Zeros is a list of n zeros, in the place of one that is not needed any more if that
// is long enough: append of what make made would leave garbage with TinyGo.
func Zeros[T any](s []T, n int) []T {
	if n > cap(s) {
		return make([]T, n, n+n/4)
	}
	s = s[:n]
	clear(s)
	return s
}
