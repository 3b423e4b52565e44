package host_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-dev/berth/host/api/berthapi"
)

// TestPeersAreStreamed: nodes are told labels, addresses and named ports of pods, and
// nothing else of them.
func TestPeersAreStreamed(t *testing.T) {
	t.Parallel()
	client, serving, _ := start(t, t.TempDir())
	createNode(t, client, "n1")
	pod := plainPod("a")
	pod.Labels = map[string]string{"app": "web"}
	pod.Spec.Containers[0].Ports = []v1.ContainerPort{{Name: "http", ContainerPort: 8080}, {ContainerPort: 9}}
	pod.Spec.Containers[0].Env = []v1.EnvVar{{Name: "SECRET", Value: "x"}}
	create(t, client, pod)
	bound(t, client, "a")
	give := func(ip string) {
		t.Helper()
		p, err := client.CoreV1().Pods("default").Get(t.Context(), "a", metav1.GetOptions{})
		if err == nil {
			p.Status.PodIP, p.Status.PodIPs = ip, []v1.PodIP{{IP: ip}}
			_, err = client.CoreV1().Pods("default").UpdateStatus(t.Context(), p, metav1.UpdateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	give("10.0.0.1")

	cfg, err := clientcmd.BuildConfigFromFlags("", serving.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	caller, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), "GET", serving.URL+berthapi.PeersPath, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := caller.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	next := func() (p berthapi.Peer) {
		t.Helper()
		for cmp.Equal(p, berthapi.Peer{}) { // signs of life
			if !lines.Scan() {
				t.Fatalf("the stream ends: %v", lines.Err())
			}
			if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
				t.Fatal(err)
			}
		}
		return p
	}
	want := berthapi.Peer{
		Namespace: "default", Name: "a", Node: "n1", Labels: pod.Labels, IPs: []string{"10.0.0.1"},
		Ports: []berthapi.PeerPort{{Name: "http", Port: 8080, Protocol: "TCP"}},
	}
	got := next()
	want.UID = got.UID
	if d := cmp.Diff(want, got); d != "" || got.UID == "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if got := next(); !got.Synced {
		t.Errorf("%v, want that all were told", got)
	}
	// What does not matter is not told, what does is.
	if _, err := client.CoreV1().Pods("default").Patch(t.Context(), "a", "application/merge-patch+json", []byte(`{"metadata":{"annotations":{"x":"y"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	give("10.0.0.2")
	want.IPs = []string{"10.0.0.2"}
	if d := cmp.Diff(want, next()); d != "" {
		t.Errorf("after another address: -want +got:\n%s", d)
	}
	if err := client.CoreV1().Pods("default").Delete(t.Context(), "a", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		t.Fatal(err)
	}
	if got := next(); !got.Gone || got.UID != want.UID {
		t.Errorf("after its end: %v", got)
	}
}
