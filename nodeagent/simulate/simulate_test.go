package simulate

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"github.com/berth-dev/berth/host/polltest"
	"github.com/berth-dev/berth/nodeagent/apitest"
)

func TestSimulatedNodesRunAndEndPods(t *testing.T) {
	t.Parallel()
	api := apitest.New(nil)
	api.PrependReactor("update", "leases", refuseUnversioned)
	shape, err := ParseShape("cpu=4,pods=7")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	watched := api.Watched("pods")
	go func() { done <- Run(ctx, Config{Client: api, N: 20, Shape: shape, LeaseEvery: 100 * time.Millisecond}) }()
	<-watched
	polltest.Until(t, "20 nodes", func() bool {
		list, err := api.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		return err == nil && len(list.Items) == 20
	})
	n, err := api.CoreV1().Nodes().Get(ctx, "sim-7", metav1.GetOptions{})
	if err != nil || n.Status.Allocatable.Pods().Value() != 7 || n.Status.Allocatable.Memory().IsZero() || !isReady(n) {
		t.Errorf("node %+v, %v", n, err)
	}
	pods := api.CoreV1().Pods("default")
	for i := range 50 {
		name := fmt.Sprintf("p%d", i)
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: v1.PodSpec{
			NodeName: fmt.Sprintf("sim-%d", i%20), Containers: []v1.Container{{Name: "c", Image: "i"}}}}
		if _, err := pods.Create(ctx, p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	other := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "other", UID: "other"}, Spec: v1.PodSpec{NodeName: "real"}}
	if _, err := pods.Create(ctx, other, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "50 pods run", func() bool {
		list, err := pods.List(ctx, metav1.ListOptions{})
		running := 0
		for _, p := range list.Items {
			if p.Status.Phase == v1.PodRunning && strings.HasPrefix(p.Status.PodIP, "240.") && p.Status.ContainerStatuses[0].Ready {
				running++
			}
		}
		return err == nil && running == 50
	})
	if p, err := pods.Get(ctx, "other", metav1.GetOptions{}); err != nil || p.Status.Phase != "" {
		t.Errorf("another node's pod was touched: %+v, %v", p.Status, err)
	}
	p, err := pods.Get(ctx, "p3", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	now := metav1.Now()
	p.DeletionTimestamp = &now
	if _, err := pods.Update(ctx, p, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "p3 is gone", func() bool {
		_, err := pods.Get(ctx, "p3", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	first, err := api.CoordinationV1().Leases(v1.NamespaceNodeLease).Get(ctx, "sim-7", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "leases are renewed", func() bool {
		l, err := api.CoordinationV1().Leases(v1.NamespaceNodeLease).Get(ctx, "sim-7", metav1.GetOptions{})
		return err == nil && l.Spec.RenewTime.After(first.Spec.RenewTime.Time)
	})
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
}

func TestASimulatedPodOfAJobSucceeds(t *testing.T) {
	t.Parallel()
	api := apitest.New(nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	watched := api.Watched("pods")
	go func() { done <- Run(ctx, Config{Client: api, N: 1}) }()
	<-watched
	yes := true
	pods := api.CoreV1().Pods("default")
	for _, policy := range []v1.RestartPolicy{v1.RestartPolicyNever, v1.RestartPolicyOnFailure} {
		p := &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: strings.ToLower(string(policy)), UID: types.UID(policy), OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "batch/v1", Kind: "Job", Name: "j", UID: "j", Controller: &yes,
			}}},
			Spec: v1.PodSpec{NodeName: "sim-0", RestartPolicy: policy, Containers: []v1.Container{{Name: "c", Image: "i"}}},
		}
		if _, err := pods.Create(ctx, p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	polltest.Until(t, "both succeed", func() bool {
		list, err := pods.List(ctx, metav1.ListOptions{})
		ended := 0
		for _, p := range list.Items {
			if p.Status.Phase == v1.PodSucceeded && !has(&p, v1.PodReady) && p.Status.ContainerStatuses[0].State.Terminated != nil {
				ended++
			}
		}
		return err == nil && ended == 2
	})
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
}

func TestASimulatedPodIsReadyAsItsGatesOpenAndClose(t *testing.T) {
	t.Parallel()
	api := apitest.New(nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	watched := api.Watched("pods")
	go func() { done <- Run(ctx, Config{Client: api, N: 1, LeaseEvery: time.Second}) }()
	<-watched
	pods := api.CoreV1().Pods("default")
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "web"}, Spec: v1.PodSpec{
		NodeName: "sim-0", Containers: []v1.Container{{Name: "c", Image: "i"}},
		ReadinessGates: []v1.PodReadinessGate{{ConditionType: "one"}, {ConditionType: "two"}},
	}}
	if _, err := pods.Create(ctx, p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	ready := func(want bool) func() bool {
		return func() bool {
			p, err := pods.Get(ctx, "web", metav1.GetOptions{})
			return err == nil && p.Status.Phase == v1.PodRunning && has(p, v1.PodReady) == want && has(p, v1.ContainersReady)
		}
	}
	polltest.Until(t, "it runs", ready(false))
	for _, step := range []struct {
		gate   v1.PodConditionType
		status v1.ConditionStatus
		ready  bool
	}{{"one", v1.ConditionTrue, false}, {"two", v1.ConditionTrue, true}, {"one", v1.ConditionUnknown, false}, {"one", v1.ConditionTrue, true}} {
		p, err := pods.Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		put(&p.Status, v1.PodCondition{Type: step.gate, Status: step.status})
		if _, err := pods.UpdateStatus(ctx, p, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		polltest.Until(t, fmt.Sprintf("gate %s %s: ready %v", step.gate, step.status, step.ready), ready(step.ready))
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
}

// A host that was too busy to hear from a node gives it up; the node has to say
// anew how it is, not only that it lives.
func TestASimulatedNodeThatWasGivenUpComesBack(t *testing.T) {
	t.Parallel()
	api := apitest.New(nil)
	var silent atomic.Bool
	api.PrependReactor("patch", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		if silent.Load() {
			return true, nil, apierrors.NewTimeoutError("busy", 0)
		}
		return false, nil, nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	registered := make(chan struct{})
	go func() {
		done <- Run(ctx, Config{Client: api, N: 2, LeaseEvery: 100 * time.Millisecond, Registered: func() { close(registered) }})
	}()
	<-registered
	silent.Store(true)
	polltest.Pass(500 * time.Millisecond)
	n, err := api.CoreV1().Nodes().Get(ctx, "sim-1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n.Status.Conditions {
		n.Status.Conditions[i].Status = v1.ConditionUnknown
	}
	if _, err := api.CoreV1().Nodes().UpdateStatus(ctx, n, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	silent.Store(false)
	polltest.Until(t, "the node is ready again", func() bool {
		n, err := api.CoreV1().Nodes().Get(ctx, "sim-1", metav1.GetOptions{})
		return err == nil && isReady(n)
	})
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
}

// refuseUnversioned is the rule of the real API that the fake one lacks.
func refuseUnversioned(action clienttesting.Action) (bool, runtime.Object, error) {
	lease := action.(clienttesting.UpdateAction).GetObject().(*coordinationv1.Lease)
	if lease.ResourceVersion != "" {
		return false, nil, nil
	}
	return true, nil, apierrors.NewBadRequest("metadata.resourceVersion: must be specified for an update")
}

func TestNodeShapesThatAreNone(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"zones=0", "zones=many", "", "cpu", "=4", "cpu=x", "cpu=-1", "cpu=4,,"} {
		if _, err := ParseShape(text); err == nil {
			t.Errorf("ParseShape(%q) succeeds", text)
		}
	}
}

func TestAShapeSpreadsNodesOverZones(t *testing.T) {
	t.Parallel()
	shape, err := ParseShape("cpu=4, zones=3")
	if err != nil || shape.Zones != 3 || len(shape.Capacity) != 1 {
		t.Errorf("ParseShape = %+v, %v, want 4 CPUs in 3 zones", shape, err)
	}
}
