package admission

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/auth/view"
)

func TestRuntimeClasses(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	cpu := func(amount string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}
	}
	spot := corev1.Toleration{Key: "spot", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}
	c.create(t, view.RuntimeClasses, "", &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "plain"}, Handler: "crun"})
	c.create(t, view.RuntimeClasses, "", &nodev1.RuntimeClass{
		ObjectMeta: metav1.ObjectMeta{Name: "vm"}, Handler: "kata", Overhead: &nodev1.Overhead{PodFixed: cpu("250m")},
		Scheduling: &nodev1.Scheduling{NodeSelector: map[string]string{"kvm": "yes"}, Tolerations: []corev1.Toleration{spot}},
	})
	tests := map[string]struct {
		class  string
		change func(*corev1.Pod)
		fails  string
		check  func(*corev1.PodSpec) bool
	}{
		"a class without more": {
			class: "plain", check: func(s *corev1.PodSpec) bool { return s.Overhead == nil && s.NodeSelector == nil },
		},
		"one that costs and selects": {
			class: "vm",
			check: func(s *corev1.PodSpec) bool {
				return s.Overhead.Cpu().String() == "250m" && s.NodeSelector["kvm"] == "yes" && slices.Contains(s.Tolerations, spot) && len(s.Tolerations) == 3
			},
		},
		"with what the pod itself says": {
			class: "vm",
			change: func(p *corev1.Pod) {
				p.Spec.Overhead, p.Spec.NodeSelector = cpu("0.25"), map[string]string{"kvm": "yes", "disk": "ssd"}
				p.Spec.Tolerations = []corev1.Toleration{{Key: "spot", Operator: corev1.TolerationOpExists}}
			},
			check: func(s *corev1.PodSpec) bool {
				return len(s.NodeSelector) == 2 && len(s.Tolerations) == 3 && !slices.Contains(s.Tolerations, spot) // it tolerates more already
			},
		},
		"another overhead":          {class: "vm", change: func(p *corev1.Pod) { p.Spec.Overhead = cpu("1") }, fails: "Pod's Overhead doesn't match RuntimeClass's defined Overhead"},
		"another node":              {class: "vm", change: func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"kvm": "no"} }, fails: "conflict: runtimeClass.scheduling.nodeSelector[kvm] = yes; pod.spec.nodeSelector[kvm] = no"},
		"an overhead of nothing":    {class: "plain", change: func(p *corev1.Pod) { p.Spec.Overhead = cpu("1") }, fails: "Pod Overhead set without corresponding RuntimeClass defined Overhead"},
		"a class that is not there": {class: "none", fails: `pod rejected: RuntimeClass "none" not found`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod, err := c.pod(t, func(p *corev1.Pod) {
				p.Spec.RuntimeClassName = ptr.To(test.class)
				if test.change != nil {
					test.change(p)
				}
			})
			if test.fails != "" {
				refused(t, err, test.fails)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !test.check(&pod.Spec) {
				t.Errorf("pod spec = %+v", pod.Spec)
			}
		})
	}
	_, err := c.pod(t, func(p *corev1.Pod) { p.Spec.Overhead = cpu("1") })
	refused(t, err, "Pod Overhead set without corresponding RuntimeClass defined Overhead")
	// A class may go while a pod of it is there, which can be changed then.
	c.create(t, view.RuntimeClasses, "", &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "brief"}, Handler: "crun"})
	pod, err := c.pod(t, func(p *corev1.Pod) { p.Spec.RuntimeClassName = ptr.To("brief") })
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Delete(t.Context(), registry.On(view.RuntimeClasses, "", "brief"), nil); err != nil {
		t.Fatal(err)
	}
	pod.Labels = map[string]string{"a": "b"}
	if _, _, err := c.Update(t.Context(), registry.On("pods", "dev", pod.Name), pod); err != nil {
		t.Errorf("a pod of a class that is gone: %v", err)
	}
}
