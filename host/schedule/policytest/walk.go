package policytest

import (
	"fmt"
	"math/rand/v2"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// Walk makes one random change of a small cluster: nodes, pods and objects come,
// change and go. step tells the changes apart.
func Walk(r *rand.Rand, c *snapshot.Cluster, step int) {
	node := fmt.Sprint("n", r.IntN(6))
	name := fmt.Sprint("p", r.IntN(20))
	switch r.IntN(8) {
	case 0, 1:
		c.UpsertNode(Node(node, "4", "8Gi", 10, func(n *v1.Node) { n.Labels["v"] = fmt.Sprint(r.IntN(3)) }))
	case 2:
		c.RemoveNode(node)
	case 3:
		c.Remove(types.UID("pod-" + name))
	case 4:
		c.UpsertObject("services", &v1.Service{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprint("s", r.IntN(3)), Labels: map[string]string{"v": fmt.Sprint(step)},
		}})
	case 5:
		c.RemoveObject("services", "", fmt.Sprint("s", r.IntN(3)))
	default:
		c.Place(snapshot.NewPod(Pod(name, "100m", "1Mi", func(p *v1.Pod) {
			if r.IntN(3) == 0 {
				p.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: int32(r.IntN(9)) + 1}}
			}
		})), node)
	}
}

// Summary tells a state in words, as far as decisions can depend on it.
func Summary(l snapshot.Log) []string {
	all := []string{fmt.Sprint(l.Pods(), " pods")}
	l.Base(func(d snapshot.Delta) bool { all = append(all, Told(d)); return true })
	return all
}

// Told says in words what a delta tells.
func Told(d snapshot.Delta) string {
	switch d.Kind {
	case snapshot.RowUpsert:
		row := d.Row
		text := fmt.Sprintf("row %d %b %s %v %+v %+v %+v %v:", d.Slot, d.Groups, row.Node.Name, row.Node.Labels, row.Allocatable, row.Requested, row.NonZero, row.Ports)
		for _, p := range row.Pods {
			text += fmt.Sprintf(" %s %x", p.UID(), p.Hash)
		}
		return text
	case snapshot.RowRemove:
		return fmt.Sprintf("row %d %b gone", d.Slot, d.Groups)
	case snapshot.PodPlaced, snapshot.PodRemoved:
		return fmt.Sprintf("pod %d %d %b %s %x %+v", d.Kind, d.Slot, d.Groups, d.Pod.UID(), d.Pod.Hash, d.Pod.Requests)
	}
	o := d.Object.(snapshot.Object)
	return fmt.Sprintf("object %d %b %s %s %v", d.Kind, d.Groups, d.Resource, o.GetName(), o.GetLabels())
}

// ToldAll is Told of each, with its number.
func ToldAll(deltas []snapshot.Delta) []string {
	all := make([]string, 0, len(deltas))
	for d := range slices.Values(deltas) {
		all = append(all, fmt.Sprint(d.Seq, " ", Told(d)))
	}
	return all
}
