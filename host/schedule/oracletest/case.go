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
	Name        string    `json:"name"`
	Nodes       []v1.Node `json:"nodes"`
	Pods        []v1.Pod  `json:"pods"`
	Pending     *v1.Pod   `json:"pending"`
	PendingMore []v1.Pod  `json:"pendingMore,omitempty"`

	Namespaces             []v1.Namespace                 `json:"namespaces,omitempty"`
	Services               []v1.Service                   `json:"services,omitempty"`
	ReplicationControllers []v1.ReplicationController     `json:"replicationControllers,omitempty"`
	ReplicaSets            []appsv1.ReplicaSet            `json:"replicasets,omitempty"`
	StatefulSets           []appsv1.StatefulSet           `json:"statefulsets,omitempty"`
	Volumes                []v1.PersistentVolume          `json:"pvs,omitempty"`
	Claims                 []v1.PersistentVolumeClaim     `json:"pvcs,omitempty"`
	Classes                []storagev1.StorageClass       `json:"storageclasses,omitempty"`
	CSINodes               []storagev1.CSINode            `json:"csinodes,omitempty"`
	CSIDrivers             []storagev1.CSIDriver          `json:"csidrivers,omitempty"`
	Capacities             []storagev1.CSIStorageCapacity `json:"csistoragecapacities,omitempty"`
	Attachments            []storagev1.VolumeAttachment   `json:"volumeattachments,omitempty"`

	// Answers are those to Asked, in its order.
	Answers []Answer `json:"-"`
}

// Answer is what kube-scheduler said of one pod.
type Answer struct {
	Case        string                `json:"case"`
	Pod         string                `json:"pod"`
	FilterOrder []string              `json:"filterOrder"`
	PreFilter   map[string]Status     `json:"preFilter"`
	ScoreOrder  []ScorePlugin         `json:"scoreOrder"`
	Nodes       map[string]NodeAnswer `json:"nodes"`
	Feasible    []string              `json:"feasible"`
	Best        []string              `json:"best"`
	BestTotal   int64                 `json:"bestTotal"`
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
	Feasible bool `json:"feasible"`
	// Crowded: only the pods for which room is made there keep the pod off it.
	Crowded bool              `json:"crowded,omitempty"`
	Filters map[string]Status `json:"filters"`
	Scores  map[string]Rated  `json:"scores"`
	Total   int64             `json:"total"`
}

// Rated is a plugin's score.
type Rated struct {
	Raw        int64 `json:"raw"`
	Normalized int64 `json:"normalized"`
	Weighted   int64 `json:"weighted"`
}

// Load reads the cases of a theme: THEME.cases.ndjson with THEME.answers.ndjson.
func Load(dir fs.FS, theme string) ([]Case, error) {
	cases, err := read[Case](dir, theme+".cases.ndjson")
	if err != nil {
		return nil, err
	}
	answers, err := read[Answer](dir, theme+".answers.ndjson")
	if err != nil {
		return nil, err
	}
	for i := range cases {
		c := &cases[i]
		n := 1 + len(c.PendingMore)
		if len(answers) < n {
			return nil, fmt.Errorf("case %s: answers are missing", c.Name)
		}
		c.Answers, answers = answers[:n], answers[n:]
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

// Asked lists the pods that the case asks about.
func (c *Case) Asked() []*v1.Pod {
	pods := []*v1.Pod{c.Pending}
	for i := range c.PendingMore {
		pods = append(pods, &c.PendingMore[i])
	}
	return pods
}

// Cluster is the case as the scheduler's snapshot.
func (c *Case) Cluster() *snapshot.Cluster {
	cluster := snapshot.New(0)
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
	c.place(cluster)
	return cluster
}

// place counts the case's pods: bound ones, and those for which room is kept.
func (c *Case) place(cluster *snapshot.Cluster) {
	for i := range c.Pods {
		pod := &c.Pods[i]
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
