package nodeagent_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func ownUsers(name string) *v1.Pod {
	p, no := newPod(name, "sleep 600"), false
	p.Spec.HostUsers = &no
	return p
}

func TestPodsWithUsersOfTheirOwnShareNoIds(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.create(ownUsers("a"))
	m.create(newPod("host", "sleep 600"))
	m.await("a", "ready", ready)
	m.await("host", "ready", ready)
	a := m.runtime.Sandbox("uid-a").IDs
	if a.IsHost() || !m.runtime.Sandbox("uid-host").IDs.IsHost() {
		t.Errorf("ids %+v, of the other pod %+v", a, m.runtime.Sandbox("uid-host").IDs)
	}

	// Another agent, and another sandbox, leave the pod its ids.
	m.stop()
	m.start()
	m.create(ownUsers("b"))
	m.await("b", "ready", ready)
	if b := m.runtime.Sandbox("uid-b").IDs; b.IsHost() || b == a {
		t.Errorf("pods have %+v and %+v", a, b)
	}
	list, err := m.runtime.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list.Sandboxes {
		if s.Pod.Name == "a" {
			m.runtime.Crash(s.ID, 0, false)
		}
	}
	m.await("a", "restarted", func(p *v1.Pod) bool { return p.Status.ContainerStatuses[0].RestartCount == 1 && ready(p) })
	if again := m.runtime.Sandbox("uid-a").IDs; again != a {
		t.Errorf("the next sandbox has %+v, want %+v", again, a)
	}
	node, err := m.api.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if h := node.Status.RuntimeHandlers; len(h) != 1 || h[0].Features == nil || !*h[0].Features.UserNamespaces || !*h[0].Features.RecursiveReadOnlyMounts {
		t.Errorf("the node tells of %+v", h)
	}
	for _, name := range []string{"a", "b", "host"} {
		m.terminate(name, 1)
		m.awaitGone(name)
	}
	m.nothingLeft("uid-a")
}

func TestRuntimeWithoutUserNamespacesRefusesThem(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.stop()
	m.runtime.NoUserNamespaces = true
	m.start()
	m.create(ownUsers("own"))
	const why = "can't set `spec.hostUsers: false`, runtime does not support user namespaces"
	m.told("FailedCreatePodSandBox", "Failed to create pod sandbox: "+why)
	m.await("own", "refused", func(p *v1.Pod) bool {
		return waitsFor("ContainerCreating")(p) && strings.Contains(p.Status.ContainerStatuses[0].State.Waiting.Message, why)
	})
	m.terminate("own", 1)
	m.awaitGone("own")
	m.nothingLeft("uid-own")
}
