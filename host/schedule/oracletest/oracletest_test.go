package oracletest_test

import (
	"os"
	"strings"
	"testing"

	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/oracletest"
	"github.com/berth-dev/berth/host/schedule/policytest"
)

const cases = "../../../policies-wasm/oracle/testdata"

// The native policies that the engine is tested with say of themselves that
// they are those of kube-scheduler: here they keep their word, and the harness
// shows that it sees a policy which does not.
func TestNativePoliciesAgree(t *testing.T) {
	t.Parallel()
	dir := os.DirFS(cases)
	themes, err := oracletest.Themes(dir)
	if err != nil || len(themes) == 0 {
		t.Fatalf("themes: %v, %v", themes, err)
	}
	for _, theme := range themes {
		t.Run(theme, func(t *testing.T) {
			t.Parallel()
			list, err := oracletest.Load(dir, theme)
			if err != nil || len(list) == 0 {
				t.Fatalf("cases: %d, %v", len(list), err)
			}
			right, wrong := oracle(), oracle()
			wrong.Filters["NodeAffinity"] = []string{"PodToleratesNodeTaints"}
			missed := 0
			for i := range list {
				c := &list[i]
				found, err := right.Compare(t.Context(), c)
				if err != nil || len(found) > 0 {
					t.Errorf("differences: %v, %s", err, strings.Join(found, "\n"))
				}
				found, err = wrong.Compare(t.Context(), c)
				if err != nil {
					t.Error(err)
				}
				missed += len(found)
			}
			if missed == 0 {
				t.Error("the harness does not see a policy that stands for the wrong plugin")
			}
		})
	}
}

func oracle() *oracletest.Oracle {
	reasons := framework.NewReasons(0)
	return &oracletest.Oracle{
		Reasons: reasons,
		Profile: &framework.Profile{Name: "default-scheduler", Predicates: []framework.ProfilePredicate{
			{Policy: policytest.Taints(reasons)}, {Policy: policytest.Selector(reasons)},
		}},
		Filters: map[string][]string{"NodeAffinity": {"MatchNodeSelector"}, "TaintToleration": {"PodToleratesNodeTaints"}},
	}
}
