package catalog

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/host/polltest"
)

func TestCatalogHasServicesAndSlices(t *testing.T) {
	t.Parallel()
	meta := metav1.ObjectMeta{Namespace: "default", Name: "web", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}}
	sliced := meta
	sliced.Labels = map[string]string{discoveryv1.LabelServiceName: "web"}
	c := New(fake.NewClientset(&v1.Service{ObjectMeta: meta}, &discoveryv1.EndpointSlice{ObjectMeta: sliced}))
	if c.Synced() {
		t.Error("synced before Run")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- c.Run(ctx) }()
	if !cache.WaitForCacheSync(t.Context().Done(), c.Synced) {
		t.Fatal("not synced")
	}
	service, err := c.Services().Lister().Services("default").Get("web")
	if err != nil || service.ManagedFields != nil {
		t.Errorf("service = %+v, %v", service, err)
	}
	if slice, err := c.Slices().Lister().EndpointSlices("default").Get("web"); err != nil || slice.ManagedFields != nil {
		t.Errorf("slice = %+v, %v", slice, err)
	}
	if of := c.SlicesOf("default", "web"); len(of) != 1 {
		t.Errorf("slices of the service = %v", of)
	}
	if of := c.SlicesOf("other", "web"); len(of) != 0 {
		t.Errorf("slices of another service = %v", of)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v", err)
	}
}

// start gives a catalog that follows a client, until the test ends.
func start(t *testing.T, client *fake.Clientset) *Catalog {
	t.Helper()
	c := New(client)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- c.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	if !cache.WaitForCacheSync(t.Context().Done(), c.Synced) {
		t.Fatal("not synced")
	}
	return c
}

func TestPortsAreThoseThatServicesSendTo(t *testing.T) {
	t.Parallel()
	service := func(namespace, name string, change func(*v1.ServiceSpec), ports ...v1.ServicePort) *v1.Service {
		s := &v1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec:       v1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: ports},
		}
		if change != nil {
			change(&s.Spec)
		}
		return s
	}
	to := func(target int32) v1.ServicePort { return v1.ServicePort{TargetPort: intstr.FromInt32(target)} }
	named := func(target string, protocol v1.Protocol) v1.ServicePort {
		return v1.ServicePort{TargetPort: intstr.FromString(target), Protocol: protocol}
	}
	c := start(t, fake.NewClientset(
		service("default", "one", nil, to(8080), named("http", ""), named("dns", v1.ProtocolUDP), named("none", v1.ProtocolTCP)),
		service("default", "two", nil, to(8080), to(9090)),
		service("other", "elsewhere", nil, to(1)),
		service("default", "others", func(s *v1.ServiceSpec) { s.Selector["app"] = "db" }, to(2)),
		service("default", "by-hand", func(s *v1.ServiceSpec) { s.Selector = nil }, to(3)),
		service("default", "outside", func(s *v1.ServiceSpec) { s.Type = v1.ServiceTypeExternalName }, to(4)),
		service("default", "at-once", func(s *v1.ServiceSpec) { s.PublishNotReadyAddresses = true }, to(5)),
	))
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Labels: map[string]string{"app": "web", "x": "y"}},
		Spec: v1.PodSpec{Containers: []v1.Container{
			{Ports: []v1.ContainerPort{{Name: "dns", ContainerPort: 53, Protocol: v1.ProtocolUDP}}},
			{Ports: []v1.ContainerPort{{Name: "http", ContainerPort: 80}}},
		}},
	}
	ports := c.Ports(p)
	slices.Sort(ports)
	if want := []uint16{80, 8080, 9090}; !slices.Equal(ports, want) {
		t.Errorf("services send to %v, want %v", ports, want)
	}
}

func TestWithdrawnWaitsForTheSlicesOfAPod(t *testing.T) {
	t.Parallel()
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "1"}}
	slice := func(name string, terminating bool, uids ...types.UID) *discoveryv1.EndpointSlice {
		s := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: "of-" + name},
		}}
		for _, uid := range uids {
			s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
				TargetRef: &v1.ObjectReference{UID: uid}, Conditions: discoveryv1.EndpointConditions{Terminating: &terminating},
			})
		}
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{}) // by hand
		return s
	}
	unready := slice("e", false, "1", "4")
	unready.Endpoints[0].Conditions.Ready, unready.Endpoints[1].Conditions.Ready = ptr.To(false), ptr.To(false)
	client := fake.NewClientset(slice("a", false, "1", "2"), slice("b", false, "2", "1"), slice("c", true, "1"), slice("d", false, "2"), unready)
	c := start(t, client)
	set := client.DiscoveryV1().EndpointSlices("default")

	for uid, what := range map[types.UID]string{"3": "is in no slice", "4": "is not ready"} {
		other := p.DeepCopy()
		other.UID = uid
		if c.Withdrawn(t.Context(), other) != nil {
			t.Errorf("a pod that %s was sent to", what)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if c.Withdrawn(ctx, p) == nil {
		t.Error("whoever stops waiting is told that it is none")
	}
	done := make(chan []types.NamespacedName, 1)
	go func() { done <- c.Withdrawn(t.Context(), p) }()
	still := func(after string) {
		t.Helper()
		select {
		case <-done:
			t.Fatalf("nobody is waited for after %s", after)
		default:
		}
	}
	still("nothing")
	if _, err := set.Update(t.Context(), slice("a", true, "1", "2"), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "the first slice is known", func() bool {
		now, err := c.Slices().Lister().EndpointSlices("default").Get("a")
		return err == nil && *now.Endpoints[0].Conditions.Terminating
	})
	still("one slice of two")
	if err := set.Delete(t.Context(), "b", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	sent := <-done
	slices.SortFunc(sent, func(a, b types.NamespacedName) int { return strings.Compare(a.Name, b.Name) })
	if want := []types.NamespacedName{{Namespace: "default", Name: "of-a"}, {Namespace: "default", Name: "of-b"}}; !slices.Equal(sent, want) {
		t.Errorf("%v sent to the pod, want %v", sent, want)
	}
}

// A pod that is deleted soon after it was ready: the slice that has it comes later.
func TestWithdrawnWaitsForSlicesThatAreLate(t *testing.T) {
	t.Parallel()
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "1", Labels: map[string]string{"app": "web"}},
		Status:     v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}},
	}
	svc := &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec:       v1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []v1.ServicePort{{Port: 80}}},
	}
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"},
	}}
	client := fake.NewClientset(svc, slice)
	c := start(t, client)
	unready := p.DeepCopy()
	unready.Status.Conditions[0].Status = v1.ConditionFalse
	if by := c.Withdrawn(t.Context(), unready); by != nil {
		t.Errorf("%v sent to a pod that was not ready", by)
	}
	done := make(chan []types.NamespacedName, 1)
	go func() { done <- c.Withdrawn(t.Context(), p) }()
	for _, terminating := range []bool{false, true} {
		select {
		case by := <-done:
			t.Fatalf("nobody is waited for, of %v, before the slice says that the pod ends", by)
		default:
		}
		slice.Endpoints = []discoveryv1.Endpoint{{
			TargetRef: &v1.ObjectReference{UID: p.UID}, Conditions: discoveryv1.EndpointConditions{Terminating: &terminating},
		}}
		if _, err := client.DiscoveryV1().EndpointSlices("default").Update(t.Context(), slice.DeepCopy(), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		polltest.Until(t, "the slice is known", func() bool {
			now, err := c.Slices().Lister().EndpointSlices("default").Get("web-1")
			return err == nil && len(now.Endpoints) == 1 && *now.Endpoints[0].Conditions.Terminating == terminating
		})
	}
	if by := <-done; !slices.Equal(by, []types.NamespacedName{{Namespace: "default", Name: "web"}}) {
		t.Errorf("%v sent to the pod, want its service", by)
	}
}

// A service that goes, as with its namespace, tells of nothing any more.
func TestWithdrawnDoesNotWaitForAServiceThatGoes(t *testing.T) {
	t.Parallel()
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "1", Labels: map[string]string{"app": "web"}},
		Status:     v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}},
	}
	client := fake.NewClientset(&v1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: v1.ServiceSpec{Selector: map[string]string{"app": "web"}},
	})
	c := start(t, client)
	done := make(chan []types.NamespacedName, 1)
	go func() { done <- c.Withdrawn(t.Context(), p) }()
	polltest.Until(t, "it waits", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.changed != nil
	})
	if err := client.CoreV1().Services("default").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Error("a service that is gone is waited for")
	}
}
