package oracle

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/berth-dev/berth/host/schedule/snapshot"
)

var themes = []string{
	"resources", "taints", "nodeaffinity", "ports", "images", "mixed", "podaffinity", "spread", "volumes",
}

// testCase is one cluster and the pods that it is asked about.
type testCase struct {
	Name        string    `json:"name"`
	Nodes       []v1.Node `json:"nodes"`
	Pods        []v1.Pod  `json:"pods"`
	Pending     *v1.Pod   `json:"pending"`
	PendingMore []v1.Pod  `json:"pendingMore"`

	Namespaces             []v1.Namespace                 `json:"namespaces"`
	Services               []v1.Service                   `json:"services"`
	ReplicationControllers []v1.ReplicationController     `json:"replicationControllers"`
	ReplicaSets            []appsv1.ReplicaSet            `json:"replicasets"`
	StatefulSets           []appsv1.StatefulSet           `json:"statefulsets"`
	Volumes                []v1.PersistentVolume          `json:"pvs"`
	Claims                 []v1.PersistentVolumeClaim     `json:"pvcs"`
	Classes                []storagev1.StorageClass       `json:"storageclasses"`
	CSINodes               []storagev1.CSINode            `json:"csinodes"`
	CSIDrivers             []storagev1.CSIDriver          `json:"csidrivers"`
	Capacities             []storagev1.CSIStorageCapacity `json:"csistoragecapacities"`
	Attachments            []storagev1.VolumeAttachment   `json:"volumeattachments"`
}

// answer is what kube-scheduler's plugins said of one pod.
type answer struct {
	Case       string                `json:"case"`
	Pod        string                `json:"pod"`
	PreFilter  map[string]status     `json:"preFilter"`
	ScoreOrder []scorePlugin         `json:"scoreOrder"`
	Nodes      map[string]nodeAnswer `json:"nodes"`
}

type scorePlugin struct {
	Name    string `json:"name"`
	Skipped bool   `json:"skipped"`
}

type status struct {
	Code    string   `json:"code"`
	Reasons []string `json:"reasons"`
}

type nodeAnswer struct {
	Feasible bool              `json:"feasible"`
	Filters  map[string]status `json:"filters"`
	Scores   map[string]rated  `json:"scores"`
}

type rated struct {
	Raw        int64 `json:"raw"`
	Normalized int64 `json:"normalized"`
}

func read[T any](t *testing.T, path string) (list []T) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var one T
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		list = append(list, one)
	}
	if err := lines.Err(); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return list
}

func (c *testCase) pending() []*v1.Pod {
	pods := []*v1.Pod{c.Pending}
	for i := range c.PendingMore {
		pods = append(pods, &c.PendingMore[i])
	}
	return pods
}

// cluster is the case as the scheduler's snapshot.
func (c *testCase) cluster() *snapshot.Cluster {
	cluster := snapshot.New(1 << 20)
	for i := range c.Nodes {
		cluster.UpsertNode(&c.Nodes[i])
	}
	upsert(cluster, "namespaces", c.Namespaces)
	upsert(cluster, "services", c.Services)
	upsert(cluster, "replicationcontrollers", c.ReplicationControllers)
	upsert(cluster, "replicasets.apps", c.ReplicaSets)
	upsert(cluster, "statefulsets.apps", c.StatefulSets)
	upsert(cluster, "persistentvolumes", c.Volumes)
	upsert(cluster, "persistentvolumeclaims", c.Claims)
	upsert(cluster, "storageclasses.storage.k8s.io", c.Classes)
	upsert(cluster, "csinodes.storage.k8s.io", c.CSINodes)
	upsert(cluster, "csidrivers.storage.k8s.io", c.CSIDrivers)
	upsert(cluster, "csistoragecapacities.storage.k8s.io", c.Capacities)
	upsert(cluster, "volumeattachments.storage.k8s.io", c.Attachments)
	for i := range c.Pods {
		pod := &c.Pods[i]
		if pod.Spec.NodeName != "" && pod.Status.Phase != v1.PodSucceeded && pod.Status.Phase != v1.PodFailed {
			cluster.Place(snapshot.NewPod(pod), pod.Spec.NodeName)
		}
	}
	return cluster
}

func upsert[T any, P interface {
	*T
	snapshot.Object
}](cluster *snapshot.Cluster, resource string, list []T) {
	for i := range list {
		cluster.UpsertObject(resource, P(&list[i]))
	}
}
