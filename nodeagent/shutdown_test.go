package nodeagent_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/nodeagent"
)

// disrupted says whether a pod has the condition that a shutdown leaves.
func disrupted(p *v1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue && c.Reason == v1.PodReasonTerminationByKubelet
	})
}

func endedByShutdown(p *v1.Pod) bool {
	return p.Status.Phase == v1.PodFailed && p.Status.Reason == "Terminated" && disrupted(p) &&
		p.Status.Message == "Pod was terminated in response to imminent node shutdown."
}

func (m *machine) get(name string) *v1.Pod {
	m.t.Helper()
	p, err := m.api.CoreV1().Pods("default").Get(m.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		m.t.Fatal(err)
	}
	return p
}

func TestAShutdownEndsPodsAndTells(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.create(newPod("web", "trap x; sleep 600"))
	critical := newPod("critical", "sleep 600")
	critical.Spec.Priority = new(int32)
	*critical.Spec.Priority = 2000001000
	m.create(critical)
	m.create(newPod("over", "exit 0"))
	m.await("web", "ready", ready)
	m.await("critical", "ready", ready)

	if err := m.agent.Shutdown(t.Context(), nodeagent.Grace{Total: 3 * time.Second, Critical: time.Second}); err != nil {
		t.Fatal(err)
	}
	// It returns when the API knows.
	for _, name := range []string{"web", "critical"} {
		if p := m.get(name); !endedByShutdown(p) {
			t.Errorf("pod %s has the status %+v", name, p.Status)
		}
	}
	first, last := m.get("web").Status.ContainerStatuses[0].State.Terminated, m.get("critical").Status.ContainerStatuses[0].State.Terminated
	if first == nil || last == nil || last.FinishedAt.Before(&first.FinishedAt) {
		t.Errorf("web ended %+v, the critical pod %+v: want that last", first, last)
	}
	node, err := m.api.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(node.Status.Conditions, func(c v1.NodeCondition) bool {
		return c.Type == v1.NodeReady && c.Status == v1.ConditionFalse && strings.Contains(c.Message, "node is shutting down")
	}) {
		t.Errorf("the node has the conditions %+v", node.Status.Conditions)
	}

	m.create(newPod("late", "sleep 600"))
	m.await("late", "refused", func(p *v1.Pod) bool {
		return p.Status.Phase == v1.PodFailed && p.Status.Reason == "NodeShutdown"
	})

	// It was called off.
	if err := m.agent.Reopen(t.Context()); err != nil {
		t.Fatal(err)
	}
	if node, err = m.api.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(node.Status.Conditions, func(c v1.NodeCondition) bool {
		return c.Type == v1.NodeReady && c.Status == v1.ConditionTrue
	}) {
		t.Errorf("after a shutdown that was called off the node has the conditions %+v", node.Status.Conditions)
	}
	m.create(newPod("next", "sleep 600"))
	m.await("next", "ready", ready)
}

func TestAShutdownThatIsCutReturns(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.create(newPod("slow", "trap x; sleep 600"))
	m.await("slow", "ready", ready)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := m.agent.Shutdown(ctx, nodeagent.Grace{Total: time.Minute}); err == nil {
		t.Error("a shutdown that was cut tells of no error")
	}
	if p := m.get("slow"); p.Status.Phase == v1.PodFailed {
		t.Errorf("a pod that runs is told to have ended: %+v", p.Status)
	}
}
