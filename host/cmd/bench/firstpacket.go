package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	farNode = "far"
	// becomeReady is how many pods do, one after the other.
	becomeReady = 100
	// askEvery is how often a Service is asked that nobody serves yet.
	askEvery = 2 * time.Millisecond
)

// preparePods makes the other node, whose pods are objects without containers, and
// waits until pods can be made at all.
func (r *rig) preparePods(ctx context.Context) error {
	if _, err := r.client.CoreV1().Nodes().Create(ctx, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: farNode}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	return eventually(ctx, func() bool {
		_, err := r.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err == nil
	})
}

// eventually waits until something is true.
func eventually(ctx context.Context, is func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for !is() {
		if err := pause(ctx, lookEvery); err != nil {
			return err
		}
	}
	return nil
}

// firstPackets has pods of the other node become Ready, one after the other, and
// tells how long after the write of that began a pod here had its first connection to
// the pod's Service. In between are the API, the watch of the endpoints' controller
// and what it writes, the watch of the forwarder, and the kernel.
func (r *rig) firstPackets(ctx context.Context, n *node, name string, pods int) (took times, err error) {
	addresses := make([]string, pods)
	label := func(i int) string { return fmt.Sprintf("%s-ready-%d", strings.ToLower(name), i) }
	err = each(ctx, 8, pods, func(ctx context.Context, i int) (err error) {
		addresses[i], err = r.unready(ctx, label(i), i)
		return err
	})
	if err != nil {
		return nil, err
	}
	for i, address := range addresses {
		began := time.Now()
		if err := r.setReady(ctx, label(i), farAddress(10+i), v1.ConditionTrue); err != nil {
			return nil, err
		}
		err := n.pod.within(func() error { return untilConnected(ctx, fmt.Sprint(address, ":", farPort)) })
		if err != nil {
			return nil, fmt.Errorf("%s: pod %d: %w", name, i, err)
		}
		took = append(took, time.Since(began))
	}
	return took, nil
}

// unready makes a Service and its pod, and waits until the endpoints' controller has
// seen both.
func (r *rig) unready(ctx context.Context, name string, i int) (address string, err error) {
	labels := map[string]string{"app": name}
	s, err := r.client.CoreV1().Services(metav1.NamespaceDefault).Create(ctx, &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.ServiceSpec{Selector: labels, Ports: []v1.ServicePort{{Port: farPort}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: v1.PodSpec{NodeName: farNode, Containers: []v1.Container{{Name: "web", Image: "web"}}}}
	if _, err := r.client.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, p, metav1.CreateOptions{}); err != nil {
		return "", err
	}
	if err := r.setReady(ctx, name, farAddress(10+i), v1.ConditionFalse); err != nil {
		return "", err
	}
	return s.Spec.ClusterIP, eventually(ctx, func() bool {
		list, err := r.client.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + name})
		return err == nil && len(list.Items) == 1 && len(list.Items[0].Endpoints) == 1
	})
}

// setReady writes a pod's status, as its node would.
func (r *rig) setReady(ctx context.Context, name, address string, ready v1.ConditionStatus) error {
	patch := fmt.Sprintf(`{"status":{"phase":"Running","podIP":%[1]q,"podIPs":[{"ip":%[1]q}],"conditions":[{"type":"Ready","status":%[2]q}]}}`, address, ready)
	_, err := r.client.CoreV1().Pods(metav1.NamespaceDefault).Patch(ctx, name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	return err
}

// untilConnected connects, on this thread, until it is not refused.
func untilConnected(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		err := connect(address)
		if !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, syscall.ENETUNREACH) && !errors.Is(err, syscall.EHOSTUNREACH) {
			return err // none; or one that is neither of a Service that nobody serves nor of one that is not known yet
		}
		if err := pause(ctx, askEvery); err != nil {
			return err
		}
	}
}
