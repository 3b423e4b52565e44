package policy_test

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/berth-dev/berth/host/policy/vet/wasmtest"
	clustertest "github.com/berth-dev/berth/host/schedule/policytest"
)

// saying is a predicate that admits all rows, and answers berth_depends so.
func saying(depends string) guest {
	const at = 3 << 10
	return guest{Name: "saying", Version: "1", Refuse: -1, Also: func(m *Module) {
		m.Data(at, []byte(depends))
		m.Export("berth_depends", Sig(nil, I64), nil, I64Const(at<<32|int64(len(depends))))
	}}
}

// Nodes have names of their own, which a policy may read and yet not depend on.
func TestAPolicyIsAskedByWhatItSaysItDependsOn(t *testing.T) {
	t.Parallel()
	const nodes, pods = 300, 20
	for _, tt := range []struct {
		name, depends string
		least, most   int64 // rows that it is asked about
		fails         string
	}{
		{"on nothing", `{}`, 1, 2 * pods, ""},
		{"on a label that no node has", `{"labels":{"zone":null}}`, 1, nodes + 2*pods, ""}, // the first time labels are not told apart
		{"on the name", `{"groups":["node.name"]}`, nodes * pods, 2 * nodes * pods, ""},
		{"on all", `null`, nodes * pods, 2 * nodes * pods, ""},
		{"on all, always", ``, nodes * pods, 2 * nodes * pods, ""},
		{"on what it does not read", `{"groups":["node.usage"]}`, 0, 0, "only those of nodes that the policy reads"},
		{"nonsense", `[]`, 0, 0, "not the JSON that is asked for"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.put(t, "saying", withModule(r.upload(t, saying(tt.depends).Bytes())))
			r.join(t, "saying", "predicate")
			r.withNodes(nodes)
			for i := range pods {
				r.decide(t, clustertest.Pod(fmt.Sprint("p", i), fmt.Sprint(10+i, "m"), "1Mi", nil))
			}
			f := r.figures(t, "saying")
			if failed := f.Failures > 0; failed != (tt.fails != "") || !strings.Contains(f.LastFailure, tt.fails) {
				t.Errorf("%d failures, the last: %s; want %q", f.Failures, f.LastFailure, tt.fails)
			}
			if f.Rows < tt.least || f.Rows > tt.most {
				t.Errorf("it was asked about %d rows for %d pods, want %d to %d", f.Rows, pods, tt.least, tt.most)
			}
		})
	}
}
