package status

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/apis/core/validation"
)

func ended(name string, code int32) v1.ContainerStatus {
	return v1.ContainerStatus{Name: name, State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code}}}
}

func runs(name string) v1.ContainerStatus {
	return v1.ContainerStatus{Name: name, RestartCount: 1, State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}
}

// validate is what the API has against a change of status.
func validate(t *testing.T, p *v1.Pod, to v1.PodStatus) error {
	t.Helper()
	next := p.DeepCopy()
	next.Status = to
	var old, now core.Pod
	if err := corev1.Convert_v1_Pod_To_core_Pod(p, &old, nil); err != nil {
		t.Fatal(err)
	}
	if err := corev1.Convert_v1_Pod_To_core_Pod(next, &now, nil); err != nil {
		t.Fatal(err)
	}
	return validation.ValidatePodStatusUpdate(&now, &old, validation.PodValidationOptions{AllowContainerRestartPolicyRules: true}).ToAggregate()
}

// One container that may not leave its end keeps nothing else from being told.
func TestAContainerThatMayNotLeaveItsEndStaysThere(t *testing.T) {
	t.Parallel()
	always := v1.ContainerRestartPolicyAlways
	for name, test := range map[string]struct {
		policy v1.RestartPolicy
		own    *v1.ContainerRestartPolicy // of the init container
		code   int32
		kept   bool
	}{
		"success, OnFailure":     {v1.RestartPolicyOnFailure, nil, 0, true},
		"failure, OnFailure":     {v1.RestartPolicyOnFailure, nil, 1, false},
		"success, Always":        {v1.RestartPolicyAlways, nil, 0, false},
		"failure, Never":         {v1.RestartPolicyNever, nil, 1, true},
		"a sidecar of OnFailure": {v1.RestartPolicyOnFailure, &always, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := podNamed("p", "1")
			p.Spec = v1.PodSpec{RestartPolicy: test.policy, InitContainers: []v1.Container{{Name: "init", RestartPolicy: test.own}}, Containers: []v1.Container{{Name: "app"}}}
			p.Status = v1.PodStatus{InitContainerStatuses: []v1.ContainerStatus{ended("init", test.code)}, ContainerStatuses: []v1.ContainerStatus{{Name: "app"}}}
			want := v1.PodStatus{InitContainerStatuses: []v1.ContainerStatus{runs("init")}, ContainerStatuses: []v1.ContainerStatus{runs("app")}}
			got, _ := merge(p, want)
			if err := validate(t, p, got); err != nil {
				t.Errorf("the API refuses it: %v", err)
			}
			if s := got.InitContainerStatuses[0]; (s.State.Terminated != nil) != test.kept || (s.RestartCount == 0) != test.kept {
				t.Errorf("the init container is shown as %+v, want it kept: %v", s, test.kept)
			}
			if got.ContainerStatuses[0].State.Running == nil {
				t.Errorf("the app is shown as %+v", got.ContainerStatuses[0])
			}
			if want.InitContainerStatuses[0].State.Running == nil {
				t.Error("what was asked for is changed")
			}
		})
	}
}

// A pod whose last status the API refuses goes all the same, or it stayed for ever.
func TestAPodGoesThoughItsLastStatusIsRefused(t *testing.T) {
	t.Parallel()
	p := podNamed("p", "1")
	api := fake.NewClientset(p)
	api.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "p", nil)
	})
	if err := start(t, api).Final(t.Context(), p, v1.PodStatus{Phase: v1.PodSucceeded}); err != nil {
		t.Fatal(err)
	}
	if _, err := api.CoreV1().Pods("default").Get(t.Context(), "p", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the pod is still there: %v", err)
	}
}
