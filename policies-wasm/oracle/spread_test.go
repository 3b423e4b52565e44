package oracle

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/host/schedule/oracletest"
)

// TestSelectorSpread holds the two spreading priorities of old against numbers
// worked out by hand: kube-scheduler has them no more.
func TestSelectorSpread(t *testing.T) {
	t.Parallel()
	web := map[string]string{"app": "web"}
	c := &oracletest.Case{Name: "spread", Pods: []v1.Pod{}}
	for name, zone := range map[string]string{"n1": "a", "n2": "a", "n3": "b"} {
		labels := map[string]string{"topology.kubernetes.io/zone": zone}
		c.Nodes = append(c.Nodes, v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
	}
	for i, node := range []string{"n1", "n1", "n3"} {
		c.Pods = append(c.Pods, v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i), Namespace: "ns", UID: types.UID(fmt.Sprint(i)), Labels: web},
			Spec:       v1.PodSpec{NodeName: node},
		})
	}
	c.ReplicaSets = []appsv1.ReplicaSet{{
		ObjectMeta: metav1.ObjectMeta{Name: "rs", Namespace: "ns"},
		Spec:       appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: web}},
	}}
	controller := true
	owned := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "new", Namespace: "ns", Labels: web, OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "rs", Controller: &controller},
	}}}
	want := map[string]int64{"n1": 0, "n2": 33, "n3": 50}
	checkScores(t, c, "SelectorSpreadPriority", owned, want)
	checkScores(t, c, "ServiceSpreadingPriority", owned, map[string]int64{})
	c.Services = []v1.Service{{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "ns"}, Spec: v1.ServiceSpec{Selector: web}}}
	checkScores(t, c, "ServiceSpreadingPriority", owned, want)
}

func checkScores(t *testing.T, c *oracletest.Case, policy string, pod *v1.Pod, want map[string]int64) {
	t.Helper()
	cluster := c.Cluster()
	got := map[string]int64{}
	for i, score := range opener(openNative).over(t, policy, "", cluster).all(pod).Scores {
		got[cluster.Row(int32(i)).Node.Name] = score
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", policy, diff)
	}
}

// TestAReplicationControllerPrecedesServices: by default a pod is spread among
// those that its services and its controller select; what a replication
// controller asks of a label stands in for what services ask of it. By hostname,
// raw is round(1·ln 4 + 2) = 3 and 2, and 100·(3+2−3)/3 = 66.
func TestAReplicationControllerPrecedesServices(t *testing.T) {
	t.Parallel()
	web, job := map[string]string{"app": "web"}, map[string]string{"app": "job"}
	controller := true
	c := &oracletest.Case{
		Services:               []v1.Service{{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "ns"}, Spec: v1.ServiceSpec{Selector: web}}},
		ReplicationControllers: []v1.ReplicationController{{ObjectMeta: metav1.ObjectMeta{Name: "job", Namespace: "ns"}, Spec: v1.ReplicationControllerSpec{Selector: job}}},
		Pods: []v1.Pod{{
			ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "p", Labels: job}, Spec: v1.PodSpec{NodeName: "n1"},
		}},
	}
	for _, name := range []string{"n1", "n2"} {
		c.Nodes = append(c.Nodes, v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name}}})
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "new", Namespace: "ns", Labels: web, OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "ReplicationController", Name: "job", Controller: &controller},
	}}}
	checkScores(t, c, "PodTopologySpreadPriority", pod, map[string]int64{"n1": 66, "n2": 100})
}
