package podspec

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestBandwidth(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		annotations     map[string]string
		ingress, egress int64
		fails           bool
	}{
		"none":        {nil, 0, 0, false},
		"one way":     {map[string]string{"kubernetes.io/ingress-bandwidth": "10M"}, 10_000_000, 0, false},
		"both ways":   {map[string]string{"kubernetes.io/ingress-bandwidth": "1k", "kubernetes.io/egress-bandwidth": "1P"}, 1e3, 1e15, false},
		"no number":   {map[string]string{"kubernetes.io/egress-bandwidth": "fast"}, 0, 0, true},
		"too little":  {map[string]string{"kubernetes.io/egress-bandwidth": "999"}, 0, 0, true},
		"too much":    {map[string]string{"kubernetes.io/ingress-bandwidth": "2P"}, 0, 0, true},
		"less than 0": {map[string]string{"kubernetes.io/ingress-bandwidth": "-1M"}, 0, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ingress, egress, err := Bandwidth(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: tt.annotations}})
			if tt.fails != (err != nil) || !tt.fails && (ingress != tt.ingress || egress != tt.egress) {
				t.Errorf("Bandwidth = %d, %d, %v", ingress, egress, err)
			}
		})
	}
}
