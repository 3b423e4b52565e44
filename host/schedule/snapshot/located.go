package snapshot

import (
	"maps"

	v1 "k8s.io/api/core/v1"
)

// topology are the labels of a node that its pods get as they are bound.
var topology = [...]string{v1.LabelTopologyZone, v1.LabelTopologyRegion}

// LabelsOn are a pod's labels when it is bound to the node: with the node's zone
// and region in place of its own, as Kubernetes' admission of bindings has it.
// The map is the pod's where that changes nothing.
func LabelsOn(node *v1.Node, labels map[string]string) map[string]string {
	out := labels
	copied := false
	for _, key := range topology {
		value, ok := node.Labels[key]
		if had, has := out[key]; !ok || has && had == value {
			continue
		}
		if !copied {
			out, copied = make(map[string]string, len(labels)+len(topology)), true
			for k, v := range labels {
				out[k] = v
			}
		}
		out[key] = value
	}
	return out
}

// earlierPod is a pod before it was placed: the placed one, with what it had for the
// labels that it got from its node.
type earlierPod struct {
	placed *Ref
	labels [len(topology)]struct {
		value string
		has   bool
	}
}

func earlierThan(on *Pod, labels map[string]string) *earlierPod {
	e := &earlierPod{placed: on.ref}
	for i, key := range topology {
		e.labels[i].value, e.labels[i].has = labels[key]
	}
	return e
}

func (e *earlierPod) pod() *Pod {
	object := *e.placed.Pod().Object
	object.Labels = maps.Clone(object.Labels)
	for i, key := range topology {
		if e.labels[i].has {
			object.Labels[key] = e.labels[i].value
			continue
		}
		delete(object.Labels, key)
	}
	return NewPod(&object)
}
