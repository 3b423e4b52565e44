package policy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/host/policy/wire"
	clustertest "github.com/berth-dev/berth/host/schedule/policytest"
)

// Pods with large annotations do not fit into one call together. That is no
// reason for a gate to fail, all the less for the pods beside them.
func TestAGateIsAskedAboutLargePodsInPieces(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	gate := r.Current().Gates()["berth.dev/MinReadySeconds"]
	if gate == nil {
		t.Fatalf("no gate claims it: %v", r.Current().Gates())
	}
	var pods []wire.GatePod
	for i := range 120 {
		pod := clustertest.Pod(fmt.Sprint("web-", i), "1m", "1Mi", func(p *v1.Pod) {
			p.Annotations = map[string]string{"large": strings.Repeat("x", 250<<10)}
		})
		pods = append(pods, wire.GatePod{Pod: pod, Condition: "berth.dev/MinReadySeconds"})
	}
	answers, err := gate.Judge(t.Context(), time.Now().UnixNano(), pods)
	if err != nil || len(answers) != len(pods) {
		t.Fatalf("Judge of %d large pods = %d answers, %v", len(pods), len(answers), err)
	}
}
