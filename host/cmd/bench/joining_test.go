package main

import (
	"testing"
	"time"
)

// A workload in which nodes join tells beside its pods how long these took, each with
// its aim, and why nobody else's figure stands beside it.
func TestNodesThatJoinHaveARow(t *testing.T) {
	t.Parallel()
	w := workload{name: "Joining", aimRate: 6000, nodes: 10_000, measured: 60_000, joining: 10_000}
	r := result{workload: w, perSecond: 6100, joined: 11 * time.Second}
	rows := r.rows()
	if len(rows) != 2 {
		t.Fatalf("it has %d rows, want 2", len(rows))
	}
	if pods := rows[0]; pods.Reached == nil || !*pods.Reached {
		t.Errorf("6,100 pods/s do not reach %v", pods.Aim)
	}
	if joining, _ := rows[1].in("joining"); joining.Value != 11 || rows[1].Reached == nil || *rows[1].Reached {
		t.Errorf("nodes that took 11 s are in the row as %v, %v", joining, rows[1].Aim)
	}
	if beside := (&result{workload: workload{name: "Joining"}}).note(); r.note() == beside {
		t.Errorf("the note is that of any workload: %s", beside)
	}
	if alone := (&result{workload: workload{name: "Alone", measured: 1}}).rows(); len(alone) != 1 {
		t.Errorf("a workload in which no nodes join has %d rows, want 1", len(alone))
	}
	if half := w.scaled(5000); half.joining != 5000 {
		t.Errorf("on half of the nodes %d join, want half of them too", half.joining)
	}
}
