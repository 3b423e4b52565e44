package oracletest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"

	"github.com/berth-dev/berth/host/schedule/snapshot"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// Case is a cluster, the pods that it is asked about, and the answers.
type Case struct {
	Name    string
	Cluster *snapshot.Cluster
	Pods    []*v1.Pod
	Answers []Answer
}

// Answer is what kube-scheduler said of one pod.
type Answer struct {
	Case       string                `json:"case"`
	Pod        string                `json:"pod"`
	PreFilter  map[string]Status     `json:"preFilter"`
	ScoreOrder []ScorePlugin         `json:"scoreOrder"`
	Nodes      map[string]NodeAnswer `json:"nodes"`
	Feasible   []string              `json:"feasible"`
	Best       []string              `json:"best"`
	BestTotal  int64                 `json:"bestTotal"`
}

// ScorePlugin is a plugin that scores.
type ScorePlugin struct {
	Name    string `json:"name"`
	Weight  int64  `json:"weight"`
	Skipped bool   `json:"skipped"`
}

// Status is a plugin's verdict.
type Status struct {
	Code    string   `json:"code"`
	Reasons []string `json:"reasons"`
}

// NodeAnswer is what was said of one node.
type NodeAnswer struct {
	Feasible bool              `json:"feasible"`
	Filters  map[string]Status `json:"filters"`
	Scores   map[string]Rated  `json:"scores"`
	Total    int64             `json:"total"`
}

// Rated is a plugin's score.
type Rated struct {
	Raw        int64 `json:"raw"`
	Normalized int64 `json:"normalized"`
	Weighted   int64 `json:"weighted"`
}

// file is a case as it is written down.
type file struct {
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

// Load reads the cases of a theme: THEME.cases.ndjson with THEME.answers.ndjson.
func Load(dir fs.FS, theme string) ([]Case, error) {
	files, err := read[file](dir, theme+".cases.ndjson")
	if err != nil {
		return nil, err
	}
	answers, err := read[Answer](dir, theme+".answers.ndjson")
	if err != nil {
		return nil, err
	}
	cases := make([]Case, 0, len(files))
	for i := range files {
		c := files[i].open()
		if len(answers) < len(c.Pods) {
			return nil, fmt.Errorf("case %s: answers are missing", c.Name)
		}
		c.Answers, answers = answers[:len(c.Pods)], answers[len(c.Pods):]
		cases = append(cases, c)
	}
	return cases, nil
}

// Themes lists the themes of a folder.
func Themes(dir fs.FS) ([]string, error) {
	names, err := fs.Glob(dir, "*.cases.ndjson")
	if err != nil {
		return nil, err
	}
	for i := range names {
		names[i] = strings.TrimSuffix(names[i], ".cases.ndjson")
	}
	return names, nil
}

func read[T any](dir fs.FS, name string) ([]T, error) {
	data, err := fs.ReadFile(dir, name)
	if err != nil {
		return nil, err
	}
	var list []T
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 32<<20)
	for lines.Scan() {
		var one T
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		list = append(list, one)
	}
	return list, lines.Err()
}

func (f *file) open() Case {
	c := Case{Name: f.Name, Cluster: snapshot.New(1 << 16), Pods: []*v1.Pod{f.Pending}}
	for i := range f.PendingMore {
		c.Pods = append(c.Pods, &f.PendingMore[i])
	}
	for i := range f.Nodes {
		c.Cluster.UpsertNode(&f.Nodes[i])
	}
	upsert(c.Cluster, "namespaces", f.Namespaces)
	upsert(c.Cluster, "services", f.Services)
	upsert(c.Cluster, "replicationcontrollers", f.ReplicationControllers)
	upsert(c.Cluster, "replicasets.apps", f.ReplicaSets)
	upsert(c.Cluster, "statefulsets.apps", f.StatefulSets)
	upsert(c.Cluster, "persistentvolumes", f.Volumes)
	upsert(c.Cluster, "persistentvolumeclaims", f.Claims)
	upsert(c.Cluster, "storageclasses.storage.k8s.io", f.Classes)
	upsert(c.Cluster, "csinodes.storage.k8s.io", f.CSINodes)
	upsert(c.Cluster, "csidrivers.storage.k8s.io", f.CSIDrivers)
	upsert(c.Cluster, "csistoragecapacities.storage.k8s.io", f.Capacities)
	upsert(c.Cluster, "volumeattachments.storage.k8s.io", f.Attachments)
	f.place(c.Cluster)
	return c
}

// place counts the case's pods: bound ones, and those for which room is kept.
func (f *file) place(cluster *snapshot.Cluster) {
	for i := range f.Pods {
		pod := &f.Pods[i]
		switch {
		case snapshot.Finished(pod):
		case pod.Spec.NodeName != "":
			cluster.Place(snapshot.NewPod(pod), pod.Spec.NodeName)
		case pod.Status.NominatedNodeName != "":
			cluster.Nominate(snapshot.NewPod(pod), pod.Status.NominatedNodeName)
		}
	}
}

func upsert[T any, P interface {
	*T
	snapshot.Object
}](cluster *snapshot.Cluster, resource string, list []T) {
	for i := range list {
		cluster.UpsertObject(resource, P(&list[i]))
	}
}
