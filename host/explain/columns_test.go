package explain_test

import (
	"testing"

	"github.com/berth-dev/berth/host/explain"

	"github.com/google/go-cmp/cmp"
)

func TestColumnsHaveEachNodeAtOnePlace(t *testing.T) {
	t.Parallel()
	r := &explain.Report{
		Namespace: "default", Pod: "web", State: "waiting", Derived: "present", Feasible: 1,
		Predicates: []explain.Predicate{{Name: "Taints", Refuses: 2}, {Name: "Ports"}},
		Priorities: []explain.Priority{{Name: "Least", Weight: 2}, {Name: "Images", Skipped: true}},
		Rows: []explain.Row{
			{Node: "a", Feasible: true, Total: 20, Scores: []explain.Score{{Raw: 7, Normalized: 10, Weighted: 20}, {}}},
			{Node: "b", Refusals: []explain.Refusal{{Predicate: "Taints", Reason: "gpu"}}},
			{Node: "c", Refusals: []explain.Refusal{{Predicate: "Taints", Reason: "gpu"}}},
		},
	}
	want := &explain.Columns{
		Namespace: "default", Pod: "web", State: "waiting", Derived: "present", Feasible: 1,
		Names: []string{"a", "b", "c"}, Total: []int64{20, -1, -1},
		Predicates: []explain.VerdictColumn{{Name: "Taints", Rows: []int{1, 2}, Why: []int{0, 0}, Reasons: []string{"gpu"}}},
		Priorities: []explain.ScoreColumn{{Name: "Least", Weight: 2, Scores: []int64{10, -1, -1}}},
	}
	if diff := cmp.Diff(want, explain.ColumnsOf(r)); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
}
