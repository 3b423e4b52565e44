package trial

import (
	"fmt"
	"testing"

	clustertest "github.com/berth-dev/berth/host/schedule/policytest"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// Of a large cluster a pod is compared on a part of the nodes. Were it the same
// part for all replicas, a canary could refuse the others unseen.
func TestReplicasAreComparedOnAllNodesTogether(t *testing.T) {
	t.Parallel()
	const nodes = 3*maxCompared + 7
	cluster := snapshot.New(0)
	for i := range nodes {
		cluster.UpsertNode(clustertest.Node(fmt.Sprint("n", i), "1", "1Gi", 10, nil))
	}
	seen := map[int32]bool{}
	for i := range 64 {
		about := Cycle{Log: cluster, Pod: snapshot.NewPod(clustertest.Pod(fmt.Sprint("replica-", i), "1m", "1Mi", nil))}
		rows := about.rows()
		if len(rows) > maxCompared {
			t.Fatalf("a pod is compared on %d nodes, at most %d are wanted", len(rows), maxCompared)
		}
		for _, row := range rows {
			seen[row] = true
		}
	}
	if len(seen) != nodes {
		t.Errorf("64 replicas are compared on %d of %d nodes", len(seen), nodes)
	}
}

func TestWhatWasNotComparedIsNews(t *testing.T) {
	t.Parallel()
	var d Differences
	d.NotCompared()
	if !d.News() {
		t.Error("nobody is told that the live one failed")
	}
	if got := d.Get(); got == nil || got.NotCompared != 1 || got.Answers != 0 {
		t.Errorf("counted %+v, want one that was not compared", got)
	}
}
