package machine_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/host/polltest"
)

// TestPodsInTheMachinesNetworkNeedNoCNI: a CNI comes as such a pod, which puts its
// configuration where others wait for it.
func TestPodsInTheMachinesNetworkNeedNoCNI(t *testing.T) {
	dir := t.TempDir()
	n := openNode(t, &node{confDir: dir})
	n.create(web("other"))
	own := web("own")
	own.Spec.HostNetwork = true
	n.create(own)
	if got := ask(t, n.awaitReady("own")); got != "hello from own" {
		t.Errorf("the pod answers %q", got)
	}
	waits := func() bool {
		events, err := n.api.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events.Items {
			if e.InvolvedObject.Name == "other" && strings.Contains(e.Message, "there is no network configuration in "+dir) {
				return true
			}
		}
		return false
	}
	if !polltest.Within(deadline, waits) {
		t.Error("no event says what the other pod waits for")
	}
	p, err := n.get("other")
	if err != nil || p.Status.PodIP != "" || p.Status.Phase != v1.PodPending {
		t.Errorf("the other pod is %s at %q, %v; want it to wait", p.Status.Phase, p.Status.PodIP, err)
	}
	conf := `{"cniVersion":"1.0.0","name":"mine","type":"bridge","bridge":"mine0","isGateway":true,
		"ipam":{"type":"host-local","ranges":[[{"subnet":"172.31.9.0/24"}]],"dataDir":"` + t.TempDir() + `"}}`
	if err := os.WriteFile(filepath.Join(dir, "10-mine.conf"), []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	ready := n.awaitReady("other")
	if got := ask(t, ready); got != "hello from other" || !strings.HasPrefix(ready.Status.PodIP, "172.31.9.") {
		t.Errorf("then the other pod, at %s, answers %q", ready.Status.PodIP, got)
	}
	for _, name := range []string{"own", "other"} {
		n.delete(name, 0)
	}
	n.nothingLeft("uid-own")
}
