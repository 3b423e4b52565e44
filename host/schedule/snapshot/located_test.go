package snapshot

import (
	"fmt"
	"maps"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// What a Locator makes is what is read when the bound pod is stored, however many
// kinds of pods and zones it has seen.
func TestALocatedPodIsThatWhichIsStored(t *testing.T) {
	t.Parallel()
	var l Locator
	for i := range 3 * maxLocated {
		labels := map[string]string{"app": fmt.Sprint(i % (2 * maxLocated))}
		switch i % 4 {
		case 1:
			labels[v1.LabelTopologyZone] = "z1" // some have the zone of their node already
		case 2:
			labels[v1.LabelTopologyRegion] = ""
		case 3:
			labels = nil
		}
		if i%7 == 0 {
			labels = map[string]string{}
			for k := range maxLocatedLabels {
				labels[fmt.Sprint(k)] = fmt.Sprint(i)
			}
		}
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1.LabelTopologyZone: fmt.Sprint("z", i%3)}}}
		if i%5 == 0 {
			node.Labels[v1.LabelTopologyRegion] = ""
		}
		pod := NewPod(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i), UID: types.UID(fmt.Sprint(i)), Namespace: "ns", Labels: labels}})
		want := LabelsOn(node, labels)
		on := l.On(node, pod)
		if !maps.Equal(on.Object.Labels, want) || on.Hash != NewPod(on.Object).Hash || on.UID() != pod.UID() {
			t.Fatalf("pod %d with labels %v on a node with %v is located with %v, want %v, and the hashes of that", i, labels, node.Labels, on.Object.Labels, want)
		}
		if (on == pod) != maps.Equal(labels, want) {
			t.Fatalf("pod %d with labels %v on a node with %v: the same pod is %v", i, labels, node.Labels, on == pod)
		}
		if len(l.known) > maxLocated {
			t.Fatalf("it keeps %d kinds, want %d at most", len(l.known), maxLocated)
		}
	}
}
