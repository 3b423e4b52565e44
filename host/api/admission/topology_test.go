package admission

import (
	"testing"

	"github.com/berth-dev/berth/host/api/registry"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAPodGetsItsNodesZoneAndRegion(t *testing.T) {
	t.Parallel()
	const zone, region = corev1.LabelTopologyZone, corev1.LabelTopologyRegion
	c := newCluster(t)
	c.create(t, "nodes", "", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "there", Labels: map[string]string{zone: "z", region: "r", "rack": "1"}}})
	c.create(t, "nodes", "", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "anywhere", Labels: map[string]string{"rack": "1"}}})
	type labels = map[string]string
	for name, test := range map[string]struct {
		node, kind         string
		pod, binding, want labels
		born               bool // it is made on its node
	}{
		"bound":                                     {node: "there", kind: "Node", pod: labels{"app": "a"}, want: labels{"app": "a", zone: "z", region: "r"}},
		"bound, and said others itself":             {node: "there", kind: "Node", pod: labels{zone: "mine"}, want: labels{zone: "z", region: "r"}},
		"bound with others by the binding":          {node: "there", kind: "Node", binding: labels{zone: "b"}, want: labels{zone: "b", region: "r"}},
		"bound to a node without either":            {node: "anywhere", kind: "Node", pod: labels{"app": "a"}, want: labels{"app": "a"}},
		"bound to a node that is not there":         {node: "nowhere", kind: "Node", pod: labels{"app": "a"}, want: labels{"app": "a"}},
		"bound to what is not said to be a node":    {node: "there", pod: labels{"app": "a"}, want: labels{"app": "a"}},
		"made on its node":                          {node: "there", born: true, want: labels{zone: "z", region: "r"}},
		"made on its node, and said others itself":  {node: "there", born: true, pod: labels{zone: "mine"}, want: labels{zone: "mine", region: "r"}},
		"made on a node that is not there":          {node: "nowhere", born: true, pod: labels{"app": "a"}, want: labels{"app": "a"}},
		"made without a node, and not bound as yet": {pod: labels{"app": "a"}, want: labels{"app": "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod, err := c.pod(t, func(p *corev1.Pod) {
				if p.Labels = test.pod; test.born {
					p.Spec.NodeName = test.node
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			r := registry.On("pods", "dev", pod.Name)
			if test.node != "" && !test.born {
				err := c.BindPod(t.Context(), r, &corev1.Binding{
					ObjectMeta: metav1.ObjectMeta{Labels: test.binding}, Target: corev1.ObjectReference{Kind: test.kind, Name: test.node},
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			now, err := c.Get(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(test.want, now.GetLabels()); d != "" {
				t.Errorf("labels (-want +got):\n%s", d)
			}
		})
	}
}
