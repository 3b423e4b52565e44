package abi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/abi"
)

func TestReadDepends(t *testing.T) {
	t.Parallel()
	const reads = abi.PodAffinity | abi.NodeLabels | abi.NodeName | abi.NodeTaints
	many := strings.Repeat(`"k":[],`, abi.MaxDependsLabels)
	for i := range abi.MaxDependsLabels {
		many = strings.Replace(many, `"k":`, fmt.Sprintf(`"k%d":`, i), 1)
	}
	for _, tt := range []struct {
		name, in string
		want     *abi.Depends
		err      string
	}{
		{"null is all that it reads", "null", nil, ""},
		{"nothing", "{}", &abi.Depends{}, ""},
		{"labels by value, by some values, and the name", `{"groups":["node.taints"],"labels":{"zone":null,"disk":["b","a","b"],"gpu":[]},"name":["n1"]}`,
			&abi.Depends{Groups: abi.NodeTaints, Labels: []abi.LabelDepends{{Key: "", Values: []string{"n1"}}, {Key: "disk", Values: []string{"a", "b"}}, {Key: "gpu", Values: []string{}}, {Key: "zone", Any: true}}}, ""},
		{"labels within their group say nothing more", `{"groups":["node.labels","node.name"],"labels":{"zone":null},"name":["n"]}`, &abi.Depends{Groups: abi.NodeLabels | abi.NodeName}, ""},
		{"a group that it does not read", `{"groups":["node.usage"]}`, nil, "only those of nodes that the policy reads"},
		{"a group of pods", `{"groups":["pod.affinity"]}`, nil, "only those of nodes that the policy reads"},
		{"no group", `{"groups":["labels"]}`, nil, `unknown group "labels"`},
		{"a label without a key", `{"labels":{"":null}}`, nil, "a label has a key"},
		{"too many labels", `{"labels":{` + many + `"one":[]}}`, nil, "65 labels, at most 64"},
		{"no JSON", `{`, nil, "berth_depends: not the JSON that is asked for"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := abi.ReadDepends([]byte(tt.in), reads)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error = %v, want one with %q", err, tt.err)
				}
				return
			}
			if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
				t.Errorf("ReadDepends(%s): %v, (-want +got):\n%s", tt.in, err, diff)
			}
		})
	}
	if _, err := abi.ReadDepends([]byte(`{"labels":{"a":null}}`), abi.NodeName); err == nil {
		t.Error("a label passed of a policy that does not read labels")
	}
	if _, err := abi.ReadDepends([]byte(`{"name":[]}`), abi.NodeLabels); err == nil {
		t.Error("a name passed of a policy that does not read names")
	}
}

func TestAUnionCoversBoth(t *testing.T) {
	t.Parallel()
	label := func(key string, values ...string) abi.LabelDepends {
		return abi.LabelDepends{Key: key, Any: values == nil, Values: values}
	}
	all := []*abi.Depends{
		nil, {},
		{Groups: abi.NodeTaints},
		{Groups: abi.NodeLabels},
		{Groups: abi.NodeName, Labels: []abi.LabelDepends{label("a")}},
		{Labels: []abi.LabelDepends{label("", "n1"), label("a", "x")}},
		{Labels: []abi.LabelDepends{label("", "n2"), label("a", "y"), label("b", "x")}},
		{Labels: []abi.LabelDepends{label("a"), label("c", "z")}},
	}
	for i, a := range all {
		for k, b := range all {
			u := a.Union(b)
			if !u.Covers(a) || !u.Covers(b) {
				t.Errorf("%d and %d: %+v does not cover both", i, k, u)
			}
			if a != nil && a.Covers(b) && (!a.Covers(u) || !cmp.Equal(a, a.Union(b), cmp.Comparer(func(x, y *abi.Depends) bool { return x.Covers(y) && y.Covers(x) }))) {
				t.Errorf("%d covers %d, and their union is %+v", i, k, u)
			}
		}
	}
	if all[5].Covers(all[6]) || all[2].Covers(all[1].Union(all[3])) || !all[1].Union(all[3]).Covers(all[7]) {
		t.Error("Covers is wrong about what is in another")
	}
}
