package schedule

import (
	"testing"

	"github.com/berth-dev/berth/host/schedule/cycle"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/snapshot"

	v1 "k8s.io/api/core/v1"
)

// kube-scheduler sorts the reasons of the tail as it sorts those before it: as text.
func TestTheTailOfPreemptionIsSorted(t *testing.T) {
	t.Parallel()
	reasons := framework.NewReasons(0)
	mends := reasons.Intern(framework.Reason{Policy: "p", Text: "full", Resolvable: true})
	c := &core{reasons: reasons, cluster: snapshot.New(0)}
	got := c.noRoom(snapshot.NewPod(&v1.Pod{}), cycle.Decision{Nodes: 4, Refusals: []cycle.Refusal{{Reason: mends, Count: 3}}})
	if want := " preemption: 0/4 nodes are available: 1 Preemption is not helpful for scheduling, 3 No preemption victims found for incoming pod."; got != want {
		t.Errorf("noRoom = %q, want %q", got, want)
	}
}
