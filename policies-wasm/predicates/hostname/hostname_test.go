package hostname

import (
	"testing"

	"github.com/berth-dev/berth/sdk/policytest"
)

func TestFilter(t *testing.T) {
	t.Parallel()
	const no = "node(s) didn't match the requested node name"
	policytest.Run(t, policytest.Table{
		Policy: "HostName",
		Nodes:  []policytest.Node{{Name: "a"}, {Name: "b"}},
		Cases: []policytest.Case{
			{Name: "no name", Want: map[string]string{"a": "", "b": ""}},
			{Name: "one of them", Pod: policytest.Pod{NodeName: "b"}, Want: map[string]string{"a": no, "b": ""}},
			{Name: "none of them", Pod: policytest.Pod{NodeName: "c"}, Want: map[string]string{"a": no, "b": no}},
		},
	})
}
