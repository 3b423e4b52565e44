package explain

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/host/schedule"
	"github.com/berth-dev/berth/host/schedule/cycle"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// Policies that were put in are asked about as many rows as a large cluster has,
// for a few of the pods that were decided about last.
const (
	TriedRows = 5000
	triedPods = 3
)

// tryRows asks the policies that were put in about TriedRows rows, the nodes of
// now over and over, and returns how they failed, empty if they did not.
func (v Variant) tryRows(ctx context.Context, s *schedule.Scheduler, traces []schedule.Trace) (failure string, err error) {
	tape, err := s.Tape(ctx, 0)
	if err != nil {
		return "", err
	}
	crowd, now := crowded(tape), int64(0)
	pods := []*snapshot.Pod{snapshot.NewPod(anyPod())}
	for i := len(traces) - 1; i >= max(0, len(traces)-triedPods); i-- {
		pods, now = append(pods, traces[i].Pod), traces[i].Now
	}
	for name := range v.Profiles {
		own := v.own(name)
		for _, pod := range pods {
			table, err := cycle.Judge(ctx, own, s.Reasons(), crowd, pod, now)
			if err != nil {
				return "", err
			}
			if said := failureOf(table, v.Policies); said != "" {
				return said, nil
			}
		}
	}
	return "", nil
}

// own is a profile with those of its policies that were put in.
func (v Variant) own(profile string) *framework.Profile {
	own := &framework.Profile{Name: profile}
	for _, p := range v.Apart.Profiles {
		if p.Name != profile {
			continue
		}
		for _, one := range p.Predicates {
			if v.Policies[one.Policy.Info().Name] {
				own.Predicates = append(own.Predicates, one)
			}
		}
		for _, one := range p.Priorities {
			if v.Policies[one.Policy.Info().Name] {
				own.Priorities = append(own.Priorities, one)
			}
		}
		break
	}
	return own
}

// failureOf is how one of the policies failed, empty if none did.
func failureOf(t *cycle.Table, policies map[string]bool) string {
	for i := range t.Predicates {
		if p := &t.Predicates[i]; p.Err != nil && policies[p.Policy] {
			return p.Err.Error()
		}
	}
	for i := range t.Priorities {
		if p := &t.Priorities[i]; p.Err != nil && policies[p.Policy] {
			return p.Err.Error()
		}
	}
	return ""
}

// crowded is a cluster of the nodes of another, repeated until there are TriedRows.
func crowded(log snapshot.Log) *snapshot.Cluster {
	var nodes []*v1.Node
	for slot := range log.Slots() {
		if row := log.Row(slot); row != nil {
			nodes = append(nodes, row.Node)
		}
	}
	if len(nodes) == 0 {
		nodes = []*v1.Node{anyNode()}
	}
	c := snapshot.New(0)
	for i := range TriedRows {
		node := nodes[i%len(nodes)].DeepCopy()
		node.Name = fmt.Sprintf("%s-%d", node.Name, i/len(nodes))
		if node.Labels[v1.LabelHostname] != "" {
			node.Labels[v1.LabelHostname] = node.Name
		}
		c.UpsertNode(node)
	}
	return c
}

func anyNode() *v1.Node {
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node", Labels: map[string]string{v1.LabelHostname: "node", v1.LabelOSStable: "linux"}},
		Status: v1.NodeStatus{Allocatable: v1.ResourceList{
			v1.ResourceCPU: resource.MustParse("16"), v1.ResourceMemory: resource.MustParse("64Gi"), v1.ResourcePods: resource.MustParse("110"),
		}},
	}
}

func anyPod() *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "pod", UID: "pod"},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "c", Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m"), v1.ResourceMemory: resource.MustParse("64Mi")},
		}}}},
	}
}
