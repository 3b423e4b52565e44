package nodeagent

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/nodeagent/pod"
)

func TestAPodThatEndedHoldsNoPort(t *testing.T) {
	t.Parallel()
	s := newStrained(t, Pressure{})
	s.add("web", 0, "", 0)
	s.record("web", func(r *pod.Record) { r.Pod.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 80}} })
	if got := s.portHolders(); len(got) != 1 {
		t.Errorf("%d pods hold ports, want the one that runs", len(got))
	}
	s.record("web", func(r *pod.Record) { r.End(pod.Verdict{Reason: "Evicted"}, 0, time.Now()) })
	if got := s.portHolders(); len(got) != 0 {
		t.Errorf("%s holds its port though it was evicted", got[0].Name)
	}
}

func TestOnlyTheFolderMakesAPodStatic(t *testing.T) {
	t.Parallel()
	s := newStrained(t, Pressure{})
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "web", UID: "web", Annotations: map[string]string{"kubernetes.io/config.source": "file"},
	}}
	p.Spec.NodeName = "n1"
	s.set(p)
	if got := s.staticPods(); len(got) != 0 {
		t.Error("a pod of the API is static since it says so")
	}
	if p.Annotations["kubernetes.io/config.source"] != "file" {
		t.Error("the API's object was changed")
	}
}
