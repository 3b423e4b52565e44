package podspec

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Bandwidth gives how many bits a second may come to a pod and go from it, by its
// annotations; 0 is any number. As by containerd, one that is out of reason is refused.
func Bandwidth(p *v1.Pod) (ingress, egress int64, err error) {
	if ingress, err = bandwidth(p, "kubernetes.io/ingress-bandwidth"); err != nil {
		return 0, 0, err
	}
	egress, err = bandwidth(p, "kubernetes.io/egress-bandwidth")
	return ingress, egress, err
}

func bandwidth(p *v1.Pod, annotation string) (int64, error) {
	text, ok := p.Annotations[annotation]
	if !ok {
		return 0, nil
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", annotation, err)
	}
	if n := q.Value(); n >= 1e3 && n <= 1e15 {
		return n, nil
	}
	return 0, fmt.Errorf("%s: %s is not from 1k to 1P bits a second", annotation, text)
}
