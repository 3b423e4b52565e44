// Command pod-per-value keeps one pod for each value that a label has among the
// nodes, such as one cache in each zone. A PodTemplate asks for it by an
// annotation that names the label:
//
//	example.test/pod-per: topology.kubernetes.io/zone
package main

import (
	"strconv"

	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/json"
	"github.com/berth-dev/berth/sdk/reconcile"
)

const (
	// Annotation of a PodTemplate names the nodes' label.
	Annotation = "example.test/pod-per"
	// Label of a pod is the value that it is there for.
	Label = "example.test/value"
)

type podPerValue struct{}

func (podPerValue) Reconcile(r *reconcile.Request) (out reconcile.Result, err error) {
	if r.Parent.Deleted != 0 {
		return out, nil
	}
	label, _ := r.Parent.Annotations.Get(Annotation)
	missing := values(r.Related, label)
	wanted, ready := len(missing), 0
	for _, pod := range r.Children {
		value, _ := pod.Labels.Get(Label)
		ended := pod.Pod.Phase == "Failed" || pod.Pod.Phase == "Succeeded"
		switch {
		case missing[value] && pod.Deleted == 0 && !ended:
			delete(missing, value) // this pod is the one
			if pod.Pod.Ready {
				ready++
			}
		case pod.Deleted == 0:
			out.Delete = append(out.Delete, reconcile.Deletion{UID: pod.UID})
		default:
			delete(missing, value) // the next one comes when this one is gone
		}
	}
	for _, node := range r.Related { // in the nodes' order, not in a map's
		if value, _ := node.Labels.Get(label); missing[value] {
			delete(missing, value)
			out.Create = append(out.Create, reconcile.Creation{From: "template", Object: pod(label, value), Count: 1})
		}
	}
	if ready < wanted {
		out.Why = []string{strconv.Itoa(ready) + " of " + strconv.Itoa(wanted) + " values of " + label + " have a ready pod"}
	}
	return out, nil
}

// values are those that the label has among the nodes.
func values(nodes []*reconcile.Object, label string) map[string]bool {
	found := map[string]bool{}
	for _, node := range nodes {
		if value, ok := node.Labels.Get(label); ok && node.Deleted == 0 {
			found[value] = true
		}
	}
	return found
}

// pod is what the template lacks.
func pod(label, value string) string {
	j := &json.Writer{}
	j.Open('{').Member("apiVersion", "v1").Member("kind", "Pod")
	j.Key("metadata").Open('{').Key("labels").Open('{').Member(Label, value).Close('}').Close('}')
	j.Key("spec").Open('{').Key("nodeSelector").Open('{').Member(label, value).Close('}').Close('}')
	return string(j.Close('}').Bytes())
}

func init() {
	sdk.Module("pod-per-value", "0.1.0")
	sdk.Controller("PodPerValue", podPerValue{},
		reconcile.Kind{APIVersion: "v1", Kind: "PodTemplate"},
		[]reconcile.Kind{{APIVersion: "v1", Kind: "Pod", Facts: []string{"pod"}}},
		sdk.Related(reconcile.Kind{APIVersion: "v1", Kind: "Node", By: "cluster"}),
		sdk.Describe("Keeps one pod for each value that a label has among the nodes."))
}

func main() {}
