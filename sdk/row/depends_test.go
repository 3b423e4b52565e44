package row

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/sdk/facts"
)

func read(d *Depends, syms *facts.Symbols) *abi.Depends {
	got := &abi.Depends{Groups: d.Groups()}
	for _, l := range d.Labels() {
		one := abi.LabelDepends{Key: l.Key, Any: l.Any}
		for _, v := range l.Values {
			one.Values = append(one.Values, syms.String(v))
		}
		slices.Sort(one.Values)
		got.Labels = append(got.Labels, one)
	}
	return got.Union(&abi.Depends{}) // in order, and no label within its group
}

// What an author's code looks at of a node is what its answers depend on; that grows,
// and nothing is forgotten.
func TestWhatIsLookedAtIsNoted(t *testing.T) {
	t.Parallel()
	const reads = abi.NodeGroups | abi.NodeName
	r := New(reads)
	r.Upsert(0, delta(0, "n0", "zone", "a", "disk", "ssd"))
	n := r.Cursor().Node()
	n.begin([]int32{0})
	want := &abi.Depends{}
	see := func(what string) {
		t.Helper()
		if diff := cmp.Diff(want, read(r.Depends(), r.Symbols)); diff != "" {
			t.Errorf("after %s (-want +got):\n%s", what, diff)
		}
	}
	see("nothing")
	for range 2 {
		n.Label("zone")
	}
	want.Labels = []abi.LabelDepends{{Key: "zone", Any: true}}
	see("a label")
	n.HasLabel("disk")
	want.Labels = []abi.LabelDepends{{Key: "disk", Any: true}, {Key: "zone", Any: true}}
	see("another")
	for _, look := range []struct {
		group abi.Groups
		at    func()
	}{
		{abi.NodeName, func() { n.Name() }}, {abi.NodeAnnotations, func() { n.Annotation("a") }},
		{abi.NodeTaints, func() { n.Taints() }}, {abi.NodeTaints, func() { n.Unschedulable() }},
		{abi.NodeConditions, func() { n.Condition("Ready") }}, {abi.NodePorts, func() { n.Ports() }},
		{abi.NodeCapacity, func() { n.Allocatable("cpu") }}, {abi.NodeUsage, func() { n.Requested("cpu") }},
		{abi.NodeVolumes, func() { n.Volumes() }}, {abi.NodeImages, func() { n.ImageSize("i") }},
	} {
		look.at()
		want.Groups |= look.group
		see(abi.GroupNames[0] + " and so on")
	}
	n.Labels()
	want.Groups, want.Labels = want.Groups|abi.NodeLabels, nil
	see("all labels")
}

// A slot is by name, though nobody reads it.
func TestASlotIsLookedAtAsANameIs(t *testing.T) {
	t.Parallel()
	r := New(abi.NodeName)
	r.Upsert(0, delta(0, "n0"))
	r.Cursor().Node().Slot()
	if got := read(r.Depends(), r.Symbols); got.Groups != abi.NodeName {
		t.Errorf("a slot makes answers depend on %+v, want the name", got)
	}
}

func TestWhoLooksAtManyLabelsDependsOnAll(t *testing.T) {
	t.Parallel()
	r := New(abi.NodeLabels)
	r.Upsert(0, delta(0, "n0"))
	n := r.Cursor().Node()
	for i := range maxLooked + 1 {
		n.Label(fmt.Sprint("label-", i))
	}
	if got := read(r.Depends(), r.Symbols); got.Groups != abi.NodeLabels {
		t.Errorf("depends on %+v, want all labels", got)
	}
}

func TestAMatcherTellsWhatItMatchesBy(t *testing.T) {
	t.Parallel()
	const reads = abi.NodeLabels | abi.NodeName
	r := New(reads)
	sym := r.Symbols.Intern
	require := func(key string, op facts.Op, values ...string) (q facts.Requirement) {
		q.Key, q.Op = sym(key), op
		for _, v := range values {
			q.Values = append(q.Values, sym(v))
		}
		return q
	}
	m := NewNodeMatcher(r)
	m.RequireTerms([]facts.Pair{{Key: sym("disk"), Value: sym("ssd")}}, true, []facts.NodeTerm{
		{Labels: []facts.Requirement{require("zone", facts.In, "b", "a"), require("cores", facts.Gt, "8"), require("gpu", facts.Exists)}},
		{Labels: []facts.Requirement{require("zone", facts.NotIn, "c")}, Names: []facts.Requirement{require("metadata.name", facts.In, "n1")}},
	})
	d := r.Depends()
	for range 2 { // what was told of another pod is forgotten
		d.Begin(reads &^ (abi.NodeLabels | abi.NodeName))
		m.Depends(d)
	}
	want := &abi.Depends{Labels: []abi.LabelDepends{
		{Key: "", Values: []string{"n1"}}, {Key: "cores", Any: true}, {Key: "disk", Values: []string{"ssd"}}, {Key: "gpu"}, {Key: "zone", Values: []string{"a", "b", "c"}},
	}}
	if diff := cmp.Diff(want, read(d, r.Symbols)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Who names more labels than an answer may have depends on all.
func TestTooManyLabelsAreAll(t *testing.T) {
	t.Parallel()
	r := New(abi.NodeLabels)
	d := r.Depends()
	d.Begin(0)
	for i := range abi.MaxDependsLabels + 1 {
		d.LabelValue(r.Symbols.Intern(fmt.Sprint("l", i)))
	}
	if got := d.Groups(); got != abi.NodeLabels {
		t.Errorf("of too many labels: %b, want all", got)
	}
}
