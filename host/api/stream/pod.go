package stream

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

// defaultContainer names the container that a pod with several means when
// nobody says which.
const defaultContainer = "kubectl.kubernetes.io/default-container"

// placedPod is a pod that a node runs.
func (s *Streams) placedPod(ctx context.Context, t Target) (*corev1.Pod, error) {
	pod, err := get[*corev1.Pod](ctx, s.objects, "pods", t.Namespace, t.Name)
	if err != nil {
		return nil, err
	}
	if pod.Spec.NodeName == "" {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("pod %s does not have a host assigned", t.Name))
	}
	return pod, nil
}

// containerOf checks the container's name, or finds the one that is meant.
func containerOf(pod *corev1.Pod, name string) (string, error) {
	var names []string
	podutil.VisitContainers(&pod.Spec, podutil.AllContainers, func(c *corev1.Container, _ podutil.ContainerType) bool {
		names = append(names, c.Name)
		return true
	})
	has := func(name string) bool {
		for _, n := range names {
			if n == name {
				return true
			}
		}
		return false
	}
	if name != "" {
		if !has(name) {
			return "", apierrors.NewBadRequest(fmt.Sprintf("container %s is not valid for pod %s", name, pod.Name))
		}
		return name, nil
	}
	if len(pod.Spec.Containers) == 1 {
		return pod.Spec.Containers[0].Name, nil
	}
	if wanted := pod.Annotations[defaultContainer]; wanted != "" && has(wanted) {
		return wanted, nil
	}
	return "", apierrors.NewBadRequest(fmt.Sprintf("a container name must be specified for pod %s, choose one of: %s", pod.Name, names))
}
