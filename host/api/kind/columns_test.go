package kind

import (
	"fmt"
	"testing"

	policyv1alpha1 "github.com/berth-dev/berth/host/policy/v1alpha1"
)

func TestModulesAreListedWithTheirEntries(t *testing.T) {
	t.Parallel()
	for entries, want := range map[int]string{0: "", 1: "P0", 3: "P0,P1,P2", 5: "P0,P1,P2 + 2 more..."} {
		m := &policyv1alpha1.Module{}
		for i := range entries {
			m.Status.Entries = append(m.Status.Entries, policyv1alpha1.ModuleEntry{Name: fmt.Sprint("P", i)})
		}
		got, cells := "none", moduleColumns.Cells(m)
		for i, d := range moduleColumns.Definitions[1 : len(moduleColumns.Definitions)-1] {
			if d.Name == "Entries" && d.Priority == 0 {
				got = cells[i].(string)
			}
		}
		if got != want {
			t.Errorf("of %d entries the column shows %q, want %q", entries, got, want)
		}
	}
}
