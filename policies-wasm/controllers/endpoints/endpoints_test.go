package endpoints

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/host/controller/controllertest"
)

var app = map[string]string{"app": "web"}

func web(change ...func(*v1.Service)) *v1.Service {
	s := &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", Labels: map[string]string{"tier": "front"}},
		Spec: v1.ServiceSpec{
			Selector: app, ClusterIP: "10.96.0.10", ClusterIPs: []string{"10.96.0.10"}, IPFamilies: []v1.IPFamily{v1.IPv4Protocol},
			IPFamilyPolicy: ptr.To(v1.IPFamilyPolicySingleStack),
			Ports:          []v1.ServicePort{{Name: "http", Port: 80, Protocol: v1.ProtocolTCP, TargetPort: intstr.FromString("http")}},
		},
	}
	for _, c := range change {
		c(s)
	}
	return s
}

func pod(name string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: app},
		Spec: v1.PodSpec{
			Containers: []v1.Container{{Name: "c", Image: "i", Ports: []v1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: v1.ProtocolTCP}}}},
		},
	}
}

func play(t *testing.T, test func(w *controllertest.World)) {
	t.Helper()
	controllertest.Play(t, []string{"EndpointSlice", "Endpoints"}, test)
}

// shown are the slices in short, sorted: family, ports, and of each endpoint its
// pod and r, s, t for ready, serving, terminating.
func shown(w *controllertest.World) (out []string) {
	for _, s := range controllertest.List[*discoveryv1.EndpointSlice](w, "endpointslices.discovery.k8s.io") {
		text := string(s.AddressType)
		for _, p := range s.Ports {
			text += fmt.Sprintf(" %s:%d", *p.Name, *p.Port)
		}
		var list []string
		for _, e := range s.Endpoints {
			one := e.TargetRef.Name + " "
			for _, c := range []struct {
				mark string
				set  *bool
			}{{"r", e.Conditions.Ready}, {"s", e.Conditions.Serving}, {"t", e.Conditions.Terminating}} {
				if *c.set {
					one += c.mark
				}
			}
			list = append(list, one)
		}
		slices.Sort(list)
		out = append(out, text+" ["+strings.Join(list, ", ")+"]")
	}
	slices.Sort(out)
	return out
}

func same(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestAServiceFollowsItsPods(t *testing.T) {
	t.Parallel()
	play(t, func(w *controllertest.World) {
		w.Create("services", web())
		w.Wait(time.Second)
		same(t, "slices of no pods", []string{"IPv4 []"}, shown(w))
		w.Create("pods", pod("a"))
		w.Create("pods", pod("b"))
		w.Wait(time.Second)
		same(t, "slices", []string{"IPv4 http:8080 [a rs, b rs]"}, shown(w))
		slice := controllertest.List[*discoveryv1.EndpointSlice](w, "endpointslices.discovery.k8s.io")[0]
		same(t, "labels", map[string]string{
			"tier": "front", "kubernetes.io/service-name": "web", "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
		}, slice.Labels)
		old := controllertest.Get[*v1.Endpoints](w, "endpoints", "web") //nolint:staticcheck // the older kind is served
		if len(old.Subsets) != 1 || len(old.Subsets[0].Addresses) != 2 || old.Subsets[0].Ports[0].Port != 8080 {
			t.Errorf("Endpoints %+v", old.Subsets)
		}

		w.SetPod("a", controllertest.Running)
		w.Wait(time.Second)
		same(t, "slices with one not ready", []string{"IPv4 http:8080 [a , b rs]"}, shown(w))

		revision := w.Store.Revision()
		w.SetPod("b", func(p *v1.Pod) { p.Status.QOSClass = v1.PodQOSBurstable })
		w.Wait(time.Minute)
		if w.Store.Revision() != revision+1 {
			t.Errorf("a change of a pod that says nothing of its endpoint wrote %d records", w.Store.Revision()-revision-1)
		}
		w.SetPod("b", controllertest.Ended(0))
		w.Delete("pods", "a", nil)
		w.Wait(time.Second)
		same(t, "slices after all", []string{"IPv4 []"}, shown(w))
		old = controllertest.Get[*v1.Endpoints](w, "endpoints", "web") //nolint:staticcheck // as above
		if len(old.Subsets) != 0 {
			t.Errorf("Endpoints %+v, want none", old.Subsets)
		}
		if events := w.Events(); len(events) != 0 {
			t.Errorf("events %q", events)
		}
	})
}

func TestSlicesHoldAHundred(t *testing.T) {
	t.Parallel()
	play(t, func(w *controllertest.World) {
		for i := range 250 {
			w.Create("pods", pod(fmt.Sprintf("p%03d", i)))
		}
		w.Wait(time.Second)
		w.Create("services", web())
		w.Wait(time.Second)
		sizes := func() (n []int) {
			for _, s := range controllertest.List[*discoveryv1.EndpointSlice](w, "endpointslices.discovery.k8s.io") {
				n = append(n, len(s.Endpoints))
			}
			slices.Sort(n)
			return n
		}
		same(t, "sizes", []int{50, 100, 100}, sizes())
		before := controllertest.List[*discoveryv1.EndpointSlice](w, "endpointslices.discovery.k8s.io")
		w.Create("pods", pod("p250"))
		w.Wait(time.Second)
		same(t, "sizes with one more", []int{51, 100, 100}, sizes())
		changed := 0
		for i, s := range controllertest.List[*discoveryv1.EndpointSlice](w, "endpointslices.discovery.k8s.io") {
			if s.ResourceVersion != before[i].ResourceVersion {
				changed++
			}
		}
		if changed != 1 {
			t.Errorf("%d slices were written for one pod", changed)
		}
	})
}

func TestKindsOfServices(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*v1.Service)
		want   []string
	}{
		{"no selector", func(s *v1.Service) { s.Spec.Selector = nil }, nil},
		{"a name of others", func(s *v1.Service) {
			s.Spec = v1.ServiceSpec{Type: v1.ServiceTypeExternalName, ExternalName: "example.org", Selector: app}
		}, nil},
		{"headless without ports", func(s *v1.Service) { s.Spec.ClusterIP, s.Spec.ClusterIPs, s.Spec.Ports = "None", []string{"None"}, nil }, []string{"IPv4 [a rs]"}},
		{"a port that no pod has", func(s *v1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromString("other") }, []string{"IPv4 [a rs]"}},
		{"a port by number", func(s *v1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromInt32(99) }, []string{"IPv4 http:99 [a rs]"}},
		{"the service's own port", func(s *v1.Service) { s.Spec.Ports[0].TargetPort = intstr.IntOrString{} }, []string{"IPv4 http:80 [a rs]"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			play(t, func(w *controllertest.World) {
				w.Create("pods", pod("a"))
				w.Create("services", web(tt.change))
				w.Wait(time.Second)
				same(t, "slices", tt.want, shown(w))
			})
		})
	}
}

func TestPublishNotReadyAddresses(t *testing.T) {
	t.Parallel()
	play(t, func(w *controllertest.World) {
		w.Start(controllertest.Running)
		w.Create("pods", pod("a"))
		w.Create("services", web(func(s *v1.Service) { s.Spec.PublishNotReadyAddresses = true }))
		w.Wait(time.Second)
		same(t, "slices", []string{"IPv4 http:8080 [a r]"}, shown(w))
	})
}

func TestEndpointsOfUsersAreMirrored(t *testing.T) {
	t.Parallel()
	controllertest.Play(t, []string{"EndpointSlice", "Endpoints", "EndpointSliceMirror"}, func(w *controllertest.World) {
		w.Create("services", web(func(s *v1.Service) { s.Spec.Selector = nil }))
		//nolint:staticcheck // the older kind is what is mirrored
		w.Create("endpoints", &v1.Endpoints{
			ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"},
			Subsets: []v1.EndpointSubset{{
				Addresses: []v1.EndpointAddress{{IP: "10.1.2.3"}}, NotReadyAddresses: []v1.EndpointAddress{{IP: "10.1.2.4"}},
				Ports: []v1.EndpointPort{{Name: "http", Port: 80, Protocol: v1.ProtocolTCP}},
			}},
		})
		w.Wait(time.Second)
		all := controllertest.List[*discoveryv1.EndpointSlice](w, "endpointslices.discovery.k8s.io")
		if len(all) != 1 || len(all[0].Endpoints) != 2 || *all[0].Ports[0].Port != 80 || all[0].Labels[managedBy] != "endpointslicemirroring-controller.k8s.io" {
			t.Fatalf("slices %+v, %q", all, w.Events())
		}
		revision := w.Store.Revision()
		w.Wait(time.Minute)
		if w.Store.Revision() != revision {
			t.Error("it does not come to rest")
		}
		//nolint:staticcheck // as above
		controllertest.Change(w, "endpoints", "", "web", func(e *v1.Endpoints) { e.Subsets[0].NotReadyAddresses = nil })
		w.Wait(time.Second)
		if all = controllertest.List[*discoveryv1.EndpointSlice](w, "endpointslices.discovery.k8s.io"); len(all) != 1 || len(all[0].Endpoints) != 1 {
			t.Errorf("slices %+v", all)
		}
		w.Delete("services", "web", nil)
		w.Wait(time.Second)
		if all = controllertest.List[*discoveryv1.EndpointSlice](w, "endpointslices.discovery.k8s.io"); len(all) != 0 {
			t.Errorf("slices of a Service that is gone: %+v", all)
		}
	})
}

// Of very many addresses as many are mirrored as Kubernetes mirrors, those that are
// ready first.
func TestAThousandAddressesOfASubsetAreMirrored(t *testing.T) {
	t.Parallel()
	e := &v1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "e"}, Subsets: make([]v1.EndpointSubset, 1)} //nolint:staticcheck // as above
	for i := range 600 {
		at := func(net int) v1.EndpointAddress {
			return v1.EndpointAddress{IP: fmt.Sprintf("10.%d.%d.%d", net, i/200, i%200+1)}
		}
		e.Subsets[0].NotReadyAddresses = append(e.Subsets[0].NotReadyAddresses, at(1))
		e.Subsets[0].Addresses = append(e.Subsets[0].Addresses, at(2))
	}
	service := web(func(s *v1.Service) { s.Spec.Selector = nil })
	out := controllertest.Ask(t, "EndpointSliceMirror", controllertest.BubbleTime, e, service)
	ready, notReady := 0, 0
	for _, c := range out.Create {
		for _, one := range made(t, c).Endpoints {
			if *one.Conditions.Ready {
				ready++
			} else {
				notReady++
			}
		}
	}
	if ready != 600 || notReady != 400 {
		t.Errorf("%d ready and %d other addresses are mirrored", ready, notReady)
	}
	if len(out.Events) != 1 || out.Events[0].Reason != "TooManyAddressesToMirror" ||
		out.Events[0].Message != "A max of 1000 addresses can be mirrored to EndpointSlices per Endpoints subset. 200 addresses were skipped" {
		t.Errorf("events %+v", out.Events)
	}
}
