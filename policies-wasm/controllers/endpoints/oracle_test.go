package endpoints

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clienttesting "k8s.io/client-go/testing"
	upstream "k8s.io/kubernetes/pkg/controller/endpointslice"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/controller/controllertest"
	"github.com/berth-dev/berth/host/store"
)

// state is a Service among nodes and pods, with what was made for it before.
type state struct {
	service *v1.Service
	nodes   []*v1.Node
	pods    []*v1.Pod
	slices  []*discoveryv1.EndpointSlice
}

// inventor makes up states.
type inventor struct{ *rand.Rand }

func (r inventor) one(in int) bool { return r.IntN(in) == 0 }

func (r inventor) service() *v1.Service {
	s := web()
	s.UID = "service"
	switch r.IntN(4) {
	case 0:
		s.Spec.IPFamilies = []v1.IPFamily{v1.IPv4Protocol, v1.IPv6Protocol}
		s.Spec.ClusterIPs = append(s.Spec.ClusterIPs, "fd00::10")
	case 1:
		s.Spec.IPFamilies, s.Spec.ClusterIP, s.Spec.ClusterIPs = []v1.IPFamily{v1.IPv6Protocol}, "fd00::10", []string{"fd00::10"}
	}
	if r.one(4) {
		s.Spec.ClusterIP, s.Spec.ClusterIPs = "None", []string{"None"}
	}
	s.Spec.PublishNotReadyAddresses = r.one(4)
	for i, port := range []v1.ServicePort{
		{Name: "metrics", Port: 9090, Protocol: v1.ProtocolTCP, TargetPort: intstr.FromInt32(9100), AppProtocol: ptr.To("kubernetes.io/ws")},
		{Name: "dns", Port: 53, Protocol: v1.ProtocolUDP, TargetPort: intstr.FromString("dns")},
	} {
		if r.one(2 + i) {
			s.Spec.Ports = append(s.Spec.Ports, port)
		}
	}
	if r.one(4) {
		s.Labels = nil
	}
	if r.one(5) {
		s.Spec.TrafficDistribution = ptr.To([]string{"PreferClose", "PreferSameNode", "PreferSameZone"}[r.IntN(3)])
	}
	switch r.IntN(20) {
	case 0:
		s.Spec.Selector = nil
	case 1:
		s.Spec.Type = v1.ServiceTypeExternalName
	}
	return s
}

func (r inventor) pod(i int) *v1.Pod {
	p := pod(fmt.Sprintf("web-%d", i))
	p.UID, p.Spec.NodeName, p.Status.Phase = types.UID(p.Name), fmt.Sprintf("n%d", r.IntN(3)), v1.PodRunning
	p.Labels = maps.Clone(p.Labels)
	p.Status.PodIPs = []v1.PodIP{{IP: fmt.Sprintf("10.0.0.%d", i+1)}, {IP: fmt.Sprintf("fd00::1:%d", i+1)}}
	if r.one(6) {
		p.Status.PodIPs = p.Status.PodIPs[:1]
	}
	if !r.one(3) {
		p.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
	}
	if r.one(3) {
		c := &p.Spec.Containers[0]
		c.Ports = append(c.Ports, v1.ContainerPort{Name: "dns", ContainerPort: 5353, Protocol: v1.ProtocolUDP})
	}
	if r.one(4) {
		p.Spec.Hostname, p.Spec.Subdomain = "h", []string{"web", "else"}[r.IntN(2)]
	}
	switch r.IntN(14) {
	case 0:
		p.Status.Phase = v1.PodFailed
	case 1:
		p.Status.PodIPs = nil
	case 2, 3:
		p.DeletionTimestamp, p.Finalizers = ptr.To(metav1.NewTime(controllertest.BubbleTime)), []string{"x/y"}
	case 4:
		p.Labels["app"] = "db"
	case 5:
		p.Spec.Containers[0].Ports = nil
	}
	if len(p.Status.PodIPs) > 0 {
		p.Status.PodIP = p.Status.PodIPs[0].IP
	}
	return p
}

func (r inventor) state() *state {
	s := &state{service: r.service()}
	for i := range 3 {
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i), Labels: map[string]string{}}}
		if i < 2 {
			n.Labels[v1.LabelTopologyZone] = fmt.Sprintf("zone-%d", i)
		}
		n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}
		n.Status.Allocatable = v1.ResourceList{}
		s.nodes = append(s.nodes, n)
	}
	for i := range r.IntN(8) {
		s.pods = append(s.pods, r.pod(i))
	}
	if r.one(3) {
		s.keep([]*discoveryv1.EndpointSlice{r.others()})
	}
	return s
}

// others is a slice of the same Service that somebody else looks after.
func (r inventor) others() *discoveryv1.EndpointSlice {
	one := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.9.0.1"}}}}
	if r.one(2) {
		one.AddressType, one.Endpoints[0].Addresses = discoveryv1.AddressTypeIPv6, []string{"fd00::9:1"}
	}
	one.Labels = map[string]string{serviceName: "web", managedBy: "example.com"}
	return one
}

// change makes of a state, with the slices that were right for it, one in which
// something else has become of some pods.
func (r inventor) change(s *state) {
	for i, p := range s.pods {
		if n := 0; r.one(4) {
			_, _ = fmt.Sscanf(p.Name, "web-%d", &n)
			s.pods[i] = r.pod(n)
		}
	}
	if r.one(4) {
		s.service.Labels = map[string]string{"tier": "back"}
	}
	for range 1 + r.IntN(2) {
		s.pods = append(s.pods, r.pod(20+len(s.pods)))
	}
}

func (s *state) others() (all []store.Object) {
	for _, n := range s.nodes {
		all = append(all, n)
	}
	for _, p := range s.pods {
		all = append(all, p)
	}
	for _, one := range s.slices {
		all = append(all, one)
	}
	return all
}

// told is what endpoints are ordered by.
func told(e *discoveryv1.Endpoint) string {
	if e.TargetRef == nil {
		return e.Addresses[0]
	}
	return e.TargetRef.Name + e.Addresses[0]
}

// asWritten are slices without what differs between two that say the same.
func asWritten(list []*discoveryv1.EndpointSlice) (out []*discoveryv1.EndpointSlice) {
	for _, one := range list {
		// Upstream leaves an empty one beside others in the round in which labels
		// change, too.
		if len(one.Endpoints) == 0 && slices.ContainsFunc(list, func(other *discoveryv1.EndpointSlice) bool {
			return other.AddressType == one.AddressType && len(other.Endpoints) > 0
		}) {
			continue
		}
		one = one.DeepCopy()
		next := &discoveryv1.EndpointSlice{AddressType: one.AddressType, Endpoints: one.Endpoints, Ports: one.Ports}
		next.Labels, next.Annotations = one.Labels, one.Annotations
		if len(next.Annotations) == 0 {
			next.Annotations = nil
		}
		slices.SortFunc(next.Endpoints, func(a, b discoveryv1.Endpoint) int {
			return cmp.Compare(told(&a), told(&b))
		})
		slices.SortFunc(next.Ports, func(a, b discoveryv1.EndpointPort) int { return strings.Compare(*a.Name, *b.Name) })
		if len(next.Endpoints) == 0 {
			next.Endpoints = nil
		}
		if len(next.Ports) == 0 {
			next.Ports = nil
		}
		out = append(out, next)
	}
	slices.SortFunc(out, func(a, b *discoveryv1.EndpointSlice) int {
		x, _ := json.Marshal(a)
		y, _ := json.Marshal(b)
		return strings.Compare(string(x), string(y))
	})
	return out
}

// upstreams are the slices after upstream's controller has seen a state.
func upstreams(t *testing.T, s *state) (after []*discoveryv1.EndpointSlice) {
	t.Helper()
	list := controllertest.Once(t, append(s.others(), s.service), func(ctx context.Context, in controllertest.Cluster) func(context.Context) {
		core := in.Informers.Core().V1()
		c := upstream.NewController(ctx, core.Pods(), core.Services(), core.Nodes(), in.Informers.Discovery().V1().EndpointSlices(), maxEndpoints, in.Client, 0)
		return func(ctx context.Context) { c.Run(ctx, 1) }
	})
	return acted(list, s.slices)
}

// acted are slices after what upstream did to them.
func acted(list []clienttesting.Action, before []*discoveryv1.EndpointSlice) []*discoveryv1.EndpointSlice {
	now := map[string]*discoveryv1.EndpointSlice{}
	for _, one := range before {
		now[one.Name] = one
	}
	for i, a := range list {
		switch a := a.(type) {
		case clienttesting.CreateAction: // an update is one too
			if o, ok := a.GetObject().(*discoveryv1.EndpointSlice); ok {
				now[cmp.Or(o.Name, fmt.Sprint("new-", i))] = o
			}
		case clienttesting.DeleteAction:
			delete(now, a.GetName())
		}
	}
	return slices.Collect(maps.Values(now))
}

// guests are the slices after the guest has seen a state.
func guests(t *testing.T, s *state) (after []*discoveryv1.EndpointSlice) {
	t.Helper()
	return answered(t, controllertest.Ask(t, "EndpointSlice", controllertest.BubbleTime, s.service, s.others()...), s.slices)
}

// answered are slices after what the guest did to them.
func answered(t *testing.T, out *abi.ReconcileResult, before []*discoveryv1.EndpointSlice) []*discoveryv1.EndpointSlice {
	t.Helper()
	now := map[types.UID]*discoveryv1.EndpointSlice{}
	for _, one := range before {
		now[one.UID] = one
	}
	for i, c := range out.Create {
		now[types.UID(fmt.Sprintf("new-%d", i))] = made(t, c)
	}
	for _, p := range out.Patch {
		next := now[types.UID(p.UID)].DeepCopy()
		var change struct {
			Metadata struct{ Labels, Annotations map[string]*string } `json:"metadata"`
			discoveryv1.EndpointSlice
		}
		if err := json.Unmarshal(p.Patch, &change); err != nil {
			t.Fatal(err)
		}
		next.Labels = merged(next.Labels, change.Metadata.Labels)
		next.Annotations = merged(next.Annotations, change.Metadata.Annotations)
		if strings.Contains(string(p.Patch), `"endpoints":`) {
			next.Endpoints = change.Endpoints
		}
		now[types.UID(p.UID)] = next
	}
	for _, d := range out.Delete {
		delete(now, types.UID(d.UID))
	}
	return slices.Collect(maps.Values(now))
}

func merged(is map[string]string, change map[string]*string) map[string]string {
	next := maps.Clone(is)
	for key, value := range change {
		if next == nil {
			next = map[string]string{}
		}
		if delete(next, key); value != nil {
			next[key] = *value
		}
	}
	return next
}

func made(t *testing.T, c abi.Creation) *discoveryv1.EndpointSlice {
	t.Helper()
	o := new(discoveryv1.EndpointSlice)
	if err := json.Unmarshal(c.Object, o); err != nil {
		t.Fatal(err)
	}
	return o
}

// keep stores slices for the next round.
func (s *state) keep(list []*discoveryv1.EndpointSlice) {
	s.slices = nil
	for i, one := range list {
		one = one.DeepCopy()
		one.Name, one.Namespace = fmt.Sprintf("web-%d", i), "default"
		one.UID, one.GenerateName = types.UID(one.Name), ""
		one.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: "web", UID: "service", Controller: ptr.To(true)}}
		s.slices = append(s.slices, one)
	}
}

// More are compared with `go test -run Upstream -states 20000`.
var states = flag.Uint64("states", controllertest.Rounds(300, 20_000), "how many invented states are compared with upstream")

// Each state is asked about twice: from nothing, and after something changed.
func TestTheGuestDoesWhatUpstreamDoes(t *testing.T) {
	t.Parallel()
	for seed := range *states {
		r := inventor{rand.New(rand.NewPCG(seed, 1))}
		s := r.state()
		for range 2 {
			want, got := upstreams(t, s), guests(t, s)
			if diff := gocmp.Diff(shorter(asWritten(want)), shorter(asWritten(got))); diff != "" {
				text, _ := json.MarshalIndent(map[string]any{"service": s.service, "pods": s.pods, "slices": s.slices}, "", " ")
				t.Fatalf("seed %d: slices (-upstream +guest):\n%s\nof %s", seed, diff, text)
			}
			s.keep(want)
			r.change(s)
		}
	}
}

// shorter are slices as JSON, so that they are read at a glance.
func shorter(list []*discoveryv1.EndpointSlice) (out []string) {
	for _, one := range list {
		data, _ := json.MarshalIndent(one, "", " ")
		out = append(out, string(data))
	}
	return out
}
