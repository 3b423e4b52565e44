package endpoints

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	upstream "k8s.io/kubernetes/pkg/controller/endpointslicemirroring"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/host/controller/controllertest"
	"github.com/berth-dev/berth/host/store"
)

// written are Endpoints that a user wrote, with their Service and what mirrors them.
type written struct {
	endpoints *v1.Endpoints //nolint:staticcheck // the older kind is what is mirrored
	service   *v1.Service
	slices    []*discoveryv1.EndpointSlice
}

func (r inventor) written() *written {
	w := &written{service: web()}
	w.service.UID, w.service.Spec.Selector = "service", nil
	w.endpoints = &v1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "endpoints"}} //nolint:staticcheck // as above
	r.rewrite(w)
	if r.one(3) {
		w.keep([]*discoveryv1.EndpointSlice{r.others()})
	}
	return w
}

// rewrite has the user, and others, write something else.
func (r inventor) rewrite(w *written) {
	e := w.endpoints
	e.Labels, e.Annotations = map[string]string{}, map[string]string{}
	if r.one(2) {
		e.Labels["tier"] = []string{"front", "back"}[r.IntN(2)]
	}
	if r.one(3) {
		e.Annotations["example.com/note"] = []string{"a", "b"}[r.IntN(2)]
	}
	if r.one(4) {
		e.Annotations[v1.EndpointsLastChangeTriggerTime] = "2026-01-01T00:00:00Z"
		e.Annotations[v1.LastAppliedConfigAnnotation] = "{}"
	}
	switch r.IntN(14) {
	case 0:
		e.Labels[skipMirror] = "true"
	case 1:
		e.Labels[skipMirror] = "false"
	case 2:
		e.Annotations[leader] = "{}"
	}
	w.service.Spec.Selector = nil
	if r.one(12) {
		w.service.Spec.Selector = map[string]string{"app": "web"}
	}
	if e.Subsets == nil || !r.one(4) {
		e.Subsets = e.Subsets[:0:0]
		for i := range r.IntN(4) {
			e.Subsets = append(e.Subsets, r.subset(i == 0))
		}
	}
}

// subset has the port metrics if that is the first of all: upstream takes two ports
// with an appProtocol for different ones, whatever they are.
func (r inventor) subset(first bool) (s v1.EndpointSubset) { //nolint:staticcheck // as above
	for _, port := range []v1.EndpointPort{
		{Name: "http", Port: 80, Protocol: v1.ProtocolTCP},
		{Name: "metrics", Port: 9100, Protocol: v1.ProtocolTCP, AppProtocol: ptr.To("http")},
		{Name: "dns", Port: 53, Protocol: v1.ProtocolUDP},
	} {
		if r.one(2) && (first || port.AppProtocol == nil) {
			s.Ports = append(s.Ports, port)
		}
	}
	for range r.IntN(4) {
		s.Addresses = append(s.Addresses, r.address())
	}
	for range r.IntN(3) {
		s.NotReadyAddresses = append(s.NotReadyAddresses, r.address())
	}
	return s
}

func (r inventor) address() (a v1.EndpointAddress) {
	a.IP = []string{"10.1.0.1", "10.1.0.2", "10.1.0.3", "10.1.0.4", "fd00::1", "fd00::2"}[r.IntN(6)]
	// What goes with an address is always the same: of two that differ upstream takes
	// either.
	switch a.IP {
	case "10.1.0.2":
		a.Hostname = "db"
	case "10.1.0.3", "fd00::2":
		a.NodeName = ptr.To("n1")
		a.TargetRef = &v1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "p", UID: types.UID("uid-" + a.IP)}
	case "10.1.0.4":
		uid := fmt.Sprint(r.IntN(2))
		a.TargetRef = &v1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "shared-" + uid, UID: types.UID(uid)}
	}
	return a
}

func (w *written) others() (all []store.Object) {
	all = append(all, w.service)
	for _, one := range w.slices {
		all = append(all, one)
	}
	return all
}

// keep stores slices for the next round.
func (w *written) keep(list []*discoveryv1.EndpointSlice) {
	w.slices = nil
	for i, one := range list {
		one = one.DeepCopy()
		one.Name, one.Namespace = fmt.Sprintf("web-%d", i), "default"
		one.UID, one.GenerateName = types.UID(one.Name), ""
		one.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Endpoints", Name: "web", UID: "endpoints", Controller: ptr.To(true)}}
		w.slices = append(w.slices, one)
	}
}

// mirrored are the slices when upstream has come to rest. Where it puts what it would
// create into slices that it would delete, it loses one in that round (removeSlice
// tells those without names not apart), and finds it in the next.
func mirrored(t *testing.T, w written) []*discoveryv1.EndpointSlice {
	t.Helper()
	for range 5 {
		did := controllertest.Once(t, append(w.others(), w.endpoints), func(ctx context.Context, in controllertest.Cluster) func(context.Context) {
			core := in.Informers.Core().V1()
			c := upstream.NewController(ctx, core.Endpoints(), in.Informers.Discovery().V1().EndpointSlices(), core.Services(), 1000, in.Client, 0)
			return func(ctx context.Context) { c.Run(ctx, 1) }
		})
		if len(did) == 0 {
			return w.slices
		}
		w.keep(acted(did, w.slices))
	}
	t.Fatal("upstream does not come to rest")
	return nil
}

// Each of the Endpoints is mirrored from nothing, and after each of some changes.
func TestEndpointsAreMirroredAsUpstreamDoes(t *testing.T) {
	t.Parallel()
	for seed := range *states / rounds {
		r := inventor{rand.New(rand.NewPCG(seed, 2))}
		w := r.written()
		for round := range rounds {
			want := mirrored(t, *w)
			got := answered(t, controllertest.Ask(t, "EndpointSliceMirror", controllertest.BubbleTime, w.endpoints, w.others()...), w.slices)
			if diff := gocmp.Diff(shorter(asWritten(want)), shorter(asWritten(got))); diff != "" {
				text, _ := json.MarshalIndent(map[string]any{"service": w.service, "endpoints": w.endpoints, "slices": w.slices}, "", " ")
				t.Fatalf("seed %d, round %d: slices (-upstream +guest):\n%s\nof %s", seed, round, diff, text)
			}
			w.keep(want)
			r.rewrite(w)
		}
	}
}
