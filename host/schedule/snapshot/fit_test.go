package snapshot_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/host/schedule/policytest"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// TestFitsBesideIsFitsWithOneMore holds the short way against the long one.
func TestFitsBesideIsFitsWithOneMore(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 8))
	pod := func(name string) *snapshot.Pod {
		return snapshot.NewPod(policytest.Pod(name, fmt.Sprint(r.IntN(4)), fmt.Sprintf("%dGi", r.IntN(4)), func(p *v1.Pod) {
			if r.IntN(3) == 0 {
				p.Spec.Containers[0].Resources.Requests["example.test/gpu"] = resource.MustParse(fmt.Sprint(1 + r.IntN(2)))
			}
		}))
	}
	fits := map[bool]int{}
	for range 2000 {
		c := snapshot.New(0)
		node := policytest.Node("n", "6", "6Gi", 1+r.Int64N(4), nil)
		node.Status.Allocatable["example.test/gpu"] = resource.MustParse("2")
		c.UpsertNode(node)
		for i := range r.IntN(3) {
			c.Place(pod(fmt.Sprint("there-", i)), "n")
		}
		row, more, next := c.Row(0), pod("more"), pod("next")
		want := row.With(more).Fits(next)
		if got := row.FitsBeside(more, next); got != want {
			t.Fatalf("FitsBeside = %v, want %v: %v beside %v on %+v", got, want, next.Requests, more.Requests, row)
		}
		fits[want]++
	}
	if fits[true] < 200 || fits[false] < 200 {
		t.Errorf("%d fitted, %d did not", fits[true], fits[false])
	}
}
