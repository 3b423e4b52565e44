package nodeagent_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/host/polltest"
	"github.com/berth-dev/berth/nodeagent"
)

const staticManifest = `apiVersion: v1
kind: Pod
metadata: {name: first}
spec:
  enableServiceLinks: false
  dnsPolicy: Default
  containers: [{name: app, image: "busybox:1", command: [/bin/sh, -c, "sleep 600"]}]
`

// Static pods run by their files: a mirror tells of each, and is made again when it is
// deleted; a file that changes is another pod; what has no file ends, also where it lost
// it while the agent was away.
func TestStaticPodsRunByTheirFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first.yaml", staticManifest)
	m := &machine{t: t, fakes: newFakes(t.TempDir(), nil), change: func(c *nodeagent.Config) { c.StaticPods = dir }}
	if _, err := m.api.CoreV1().Nodes().Create(t.Context(), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "node-uid"}}, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	m.start()
	t.Cleanup(func() { m.stop() })

	mirror := m.await("first-n1", "ready", ready)
	hash := mirror.Annotations[v1.MirrorPodAnnotationKey]
	if hash == "" || mirror.Spec.NodeName != "n1" || len(mirror.OwnerReferences) != 1 || mirror.OwnerReferences[0].Kind != "Node" {
		t.Errorf("the mirror is %+v", mirror.ObjectMeta)
	}

	if err := m.api.CoreV1().Pods("default").Delete(t.Context(), "first-n1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	again := m.await("first-n1", "ready again", ready)
	if again.Annotations[v1.MirrorPodAnnotationKey] != hash || again.Status.ContainerStatuses[0].ContainerID != mirror.Status.ContainerStatuses[0].ContainerID {
		t.Error("the pod was made anew since somebody deleted its mirror")
	}

	write("first.yaml", strings.Replace(staticManifest, "sleep 600", "sleep 601", 1))
	m.await("first-n1", "of the new manifest", func(p *v1.Pod) bool {
		return p.Annotations[v1.MirrorPodAnnotationKey] != hash && ready(p) &&
			p.Status.ContainerStatuses[0].ContainerID != mirror.Status.ContainerStatuses[0].ContainerID
	})
	write("second.yaml", strings.Replace(staticManifest, "name: first", "name: second", 1))
	m.await("second-n1", "ready", ready)

	m.stop()
	if err := os.Remove(filepath.Join(dir, "second.yaml")); err != nil {
		t.Fatal(err)
	}
	before := m.get("first-n1")
	m.start()
	m.awaitGone("second-n1")
	if p := m.await("first-n1", "ready", ready); p.Status.ContainerStatuses[0].ContainerID != before.Status.ContainerStatuses[0].ContainerID {
		t.Error("a static pod was made anew since the agent started again")
	}
	if err := os.Remove(filepath.Join(dir, "first.yaml")); err != nil {
		t.Fatal(err)
	}
	m.awaitGone("first-n1")
	polltest.Until(t, "all containers are gone", func() bool {
		all, err := m.runtime.List(t.Context())
		return err == nil && len(all.Containers) == 0
	})
}
