package snapshot

import v1 "k8s.io/api/core/v1"

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
