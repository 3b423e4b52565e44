package guest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/sdk/row"
)

func TestWhatAnswersDependOnIsToldAsJSON(t *testing.T) {
	t.Parallel()
	r := row.New(abi.NodeLabels | abi.NodeName)
	sym, d, text := r.Symbols.Intern, r.Depends(), dependsText{}
	for _, tt := range []struct {
		name string
		tell func()
		want string
	}{
		{"nothing", func() {}, `{"groups":[],"labels":{}}`},
		{"labels and a name", func() {
			d.Label(sym("zone"), sym("a"), sym("b\""))
			d.LabelValue(sym("cores"))
			d.Label(sym("gpu"))
			d.Name(sym("n1"))
		}, `{"groups":[],"labels":{"zone":["a","b\""],"cores":null,"gpu":[]},"name":["n1"]}`},
		{"less of another pod", func() { d.Label(sym("zone"), sym("c")) }, `{"groups":[],"labels":{"zone":["c"]}}`},
		{"more than fits", func() {
			for i := range 2000 {
				d.Label(sym("zone"), sym(strings.Repeat("v", 50)+fmt.Sprint(i)))
			}
		}, `null`},
	} {
		d.Begin(0)
		tt.tell()
		for range 2 {
			if got := string(text.bytes(d, r.Symbols)); got != tt.want {
				t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
			}
		}
	}
}
