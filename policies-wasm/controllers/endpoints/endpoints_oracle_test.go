package endpoints

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clienttesting "k8s.io/client-go/testing"
	upstream "k8s.io/kubernetes/pkg/controller/endpoint"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/host/controller/controllertest"
	"github.com/berth-dev/berth/host/store"
)

//nolint:staticcheck // the older kind is served
type endpointsObject = v1.Endpoints

// around are the objects of a state with its Endpoints, if there are some.
func (s *state) around(have *endpointsObject) []store.Object {
	if have == nil {
		return s.others()
	}
	return append(s.others(), have)
}

// upstreamEndpoints are the Endpoints after upstream's controller has seen a state.
func upstreamEndpoints(t *testing.T, s *state, have *endpointsObject) *endpointsObject {
	t.Helper()
	did := controllertest.Once(t, append(s.around(have), s.service), func(ctx context.Context, in controllertest.Cluster) func(context.Context) {
		core := in.Informers.Core().V1()
		c := upstream.NewEndpointController(ctx, core.Pods(), core.Services(), core.Endpoints(), in.Client, 0)
		return func(ctx context.Context) { c.Run(ctx, 1) }
	})
	for _, a := range did {
		if a.GetResource().Resource == "endpoints" && a.GetVerb() == "delete" {
			have = nil
		}
		if a, ok := a.(clienttesting.CreateAction); ok { // an update is one too
			if o, ok := a.GetObject().(*endpointsObject); ok {
				have = o
			}
		}
	}
	return have
}

// guestEndpoints are those after the guest has.
func guestEndpoints(t *testing.T, s *state, have *endpointsObject) *endpointsObject {
	t.Helper()
	out := controllertest.Ask(t, "Endpoints", controllertest.BubbleTime, s.service, s.around(have)...)
	for _, c := range out.Create {
		have = new(endpointsObject)
		if err := json.Unmarshal(c.Object, have); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range out.Patch {
		var change struct {
			Metadata struct{ Labels, Annotations map[string]*string }
			Subsets  *[]v1.EndpointSubset //nolint:staticcheck // as above
		}
		if err := json.Unmarshal(p.Patch, &change); err != nil {
			t.Fatal(err)
		}
		have = have.DeepCopy()
		have.Labels, have.Annotations = merged(have.Labels, change.Metadata.Labels), merged(have.Annotations, change.Metadata.Annotations)
		if change.Subsets != nil {
			have.Subsets = *change.Subsets
		}
	}
	return have
}

// comparable is what Endpoints say, in one order: upstream's is by hashes.
func comparable(e *endpointsObject) *endpointsObject {
	if e == nil {
		return nil
	}
	e = &endpointsObject{ObjectMeta: metav1.ObjectMeta{Labels: e.Labels, Annotations: e.Annotations}, Subsets: e.DeepCopy().Subsets}
	for _, one := range e.Subsets {
		slices.SortFunc(one.Ports, func(a, b v1.EndpointPort) int { return strings.Compare(a.Name, b.Name) })
	}
	slices.SortFunc(e.Subsets, func(a, b v1.EndpointSubset) int { //nolint:staticcheck // as above
		return strings.Compare(fmt.Sprint(a.Ports, a.Addresses), fmt.Sprint(b.Ports, b.Addresses))
	})
	if len(e.Subsets) == 0 {
		e.Subsets = nil
	}
	if len(e.Annotations) == 0 {
		e.Annotations = nil
	}
	return e
}

// stored are Endpoints as they lie in the store for the next round, where somebody
// may have meddled with them.
func (r inventor) stored(e *endpointsObject) *endpointsObject {
	if e == nil {
		return nil
	}
	e = e.DeepCopy()
	e.Name, e.Namespace, e.UID, e.ResourceVersion = "web", "default", "endpoints", ""
	e.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: "web", UID: "service", Controller: ptr.To(true)}}
	switch r.IntN(8) {
	case 0:
		e.Subsets = nil
	case 1:
		e.Labels = map[string]string{"tier": "meddled", "more": "x"}
	case 2:
		e.Annotations = map[string]string{overCapacity: "truncated", "note": "a"}
	case 3:
		for i := range e.Subsets {
			e.Subsets[i].NotReadyAddresses = append(e.Subsets[i].NotReadyAddresses, e.Subsets[i].Addresses...)
			e.Subsets[i].Addresses = nil
		}
	}
	return e
}

// rounds are how many of the states follow on each other.
const rounds = 4

// Endpoints are made from nothing, and brought up to date after each of some changes
// of pods, of the Service, and of themselves.
func TestEndpointsAreThoseThatUpstreamWrites(t *testing.T) {
	t.Parallel()
	for seed := range *states / rounds {
		r := inventor{rand.New(rand.NewPCG(seed, 1))}
		s := r.state()
		var have *endpointsObject
		for round := range rounds {
			want, got := upstreamEndpoints(t, s, have), guestEndpoints(t, s, have)
			if diff := gocmp.Diff(comparable(want), comparable(got)); diff != "" {
				text, _ := json.MarshalIndent(map[string]any{"service": s.service, "pods": s.pods, "endpoints": have}, "", " ")
				t.Fatalf("seed %d, round %d: (-upstream +guest):\n%s\nof %s", seed, round, diff, text)
			}
			have = r.stored(want)
			r.change(s)
		}
	}
}
