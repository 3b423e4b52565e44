package admission

import (
	"context"

	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/auth/view"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podTopology gives pods the zone and the region of the node that a client binds them
// to, or makes them on. The scheduler's own binds are not asked about here: it gives
// them itself.
type podTopology struct{ objects view.Objects }

// admit leaves what the binding, or the new pod, says itself; a binding's labels take
// the place of the pod's.
func (p podTopology) admit(ctx context.Context, a *registry.Attributes) error {
	if b, ok := a.Body.(*corev1.Binding); ok && a.Subresource == "binding" && b.Target.Kind == "Node" {
		return p.label(ctx, b, b.Target.Name)
	}
	if pod, ok := a.Object.(*corev1.Pod); ok && whole(a, registry.Create) && pod.Spec.NodeName != "" {
		return p.label(ctx, pod, pod.Spec.NodeName)
	}
	return nil
}

func (p podTopology) label(ctx context.Context, o metav1.Object, name string) error {
	node, err := view.Get[*corev1.Node](ctx, p.objects, view.Nodes, "", name)
	if view.Missing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	labels := o.GetLabels()
	for _, key := range []string{corev1.LabelTopologyZone, corev1.LabelTopologyRegion} {
		value, has := node.Labels[key]
		if _, said := labels[key]; said || !has {
			continue
		}
		if labels == nil {
			labels = map[string]string{}
		}
		labels[key] = value
	}
	o.SetLabels(labels)
	return nil
}
