package replicaset

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clienttesting "k8s.io/client-go/testing"
	upstream "k8s.io/kubernetes/pkg/controller/replicaset"
	"k8s.io/kubernetes/pkg/controller/replication"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/host/controller/controllertest"
	"github.com/berth-dev/berth/host/store"
)

// inventor makes up states.
type inventor struct{ *rand.Rand }

func (r inventor) one(in int) bool { return r.IntN(in) == 0 }

// ago is a time before the round, never on the second of a limit.
func (r inventor) ago() metav1.Time {
	return metav1.NewTime(controllertest.BubbleTime.Add(-time.Duration(5+10*r.IntN(40)) * time.Second))
}

func (r inventor) set() *appsv1.ReplicaSet {
	rs := parent(r.Int32N(8), 60*r.Int32N(2))
	// Upstream counts the pods of a node only for ReplicaSets that a Deployment owns.
	rs.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "deployment", Controller: ptr.To(true)}}
	rs.CreationTimestamp = metav1.NewTime(controllertest.BubbleTime.Add(-time.Hour))
	if r.one(4) {
		rs.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "old", Operator: metav1.LabelSelectorOpDoesNotExist}}
	}
	rs.Status = appsv1.ReplicaSetStatus{
		Replicas: r.Int32N(4), FullyLabeledReplicas: r.Int32N(4), ReadyReplicas: r.Int32N(4), AvailableReplicas: r.Int32N(4), ObservedGeneration: 3 + r.Int64N(2),
	}
	if r.one(4) {
		rs.Status.Conditions = append(rs.Status.Conditions, appsv1.ReplicaSetCondition{Type: appsv1.ReplicaSetReplicaFailure, Status: v1.ConditionTrue, Reason: "FailedCreate"})
	}
	if r.one(4) {
		rs.Status.Conditions = append(rs.Status.Conditions, appsv1.ReplicaSetCondition{Type: "Other", Status: v1.ConditionTrue, LastTransitionTime: r.ago()})
	}
	if r.one(10) {
		at := metav1.NewTime(controllertest.BubbleTime)
		rs.DeletionTimestamp, rs.Finalizers = &at, []string{"x/y"}
	}
	return rs
}

func (r inventor) pod(i int) *v1.Pod {
	phases := []v1.PodPhase{v1.PodRunning, v1.PodRunning, v1.PodRunning, v1.PodPending, v1.PodUnknown, v1.PodSucceeded, v1.PodFailed}
	// Those of one age are left to chance by upstream.
	p := child(fmt.Sprintf("web-%d", i), created(time.Hour+time.Duration(r.IntN(50)*10+i)*time.Minute), on(fmt.Sprintf("n%d", r.IntN(4))))
	p.CreationTimestamp = metav1.NewTime(p.CreationTimestamp.Add(controllertest.BubbleTime.Sub(now)))
	p.Status.Phase = phases[r.IntN(len(phases))]
	p.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: r.ago()}}
	p.Labels["tier"] = "front"
	for _, change := range []struct {
		in   int
		what func(*v1.Pod)
	}{
		{3, notReady}, {5, unassigned}, {6, orphan}, {8, otherLabels}, {4, cost(fmt.Sprint(r.IntN(3) - 1))}, {3, restarted(r.Int32N(3))},
		{6, func(p *v1.Pod) { delete(p.Labels, "tier") }},
		{8, func(p *v1.Pod) { p.Labels["old"] = "yes" }},
		// Upstream counts it among those of its node, since it is selected.
		{8, func(p *v1.Pod) {
			p.OwnerReferences[0].UID, p.OwnerReferences[0].Name, p.Spec.NodeName = "else", "else", "else"
		}},
		{8, func(p *v1.Pod) {
			at := metav1.NewTime(controllertest.BubbleTime)
			p.DeletionTimestamp, p.Finalizers = &at, []string{"x/y"}
		}},
	} {
		if r.one(change.in) && (p.OwnerReferences != nil || change.in != 8) {
			change.what(p)
		}
	}
	return p
}

// state is what a ReplicaSet, or the ReplicationController like it, is asked about.
type state struct {
	parent store.Object
	pods   []*v1.Pod
}

func invent(r inventor, controller bool) state {
	rs := r.set()
	s := state{parent: rs}
	for i := range r.IntN(10) {
		s.pods = append(s.pods, r.pod(i))
	}
	if controller {
		rs.Spec.Selector.MatchExpressions = nil
		rc := &v1.ReplicationController{
			ObjectMeta: rs.ObjectMeta,
			Spec:       v1.ReplicationControllerSpec{Replicas: rs.Spec.Replicas, MinReadySeconds: rs.Spec.MinReadySeconds, Selector: rs.Spec.Selector.MatchLabels, Template: &rs.Spec.Template},
		}
		status(rs.Status, &rc.Status)
		s.parent = rc
	}
	for _, p := range s.pods {
		if controller && p.Spec.NodeName != "" {
			p.Spec.NodeName = "of-" + p.Name
		}
		for i := range p.OwnerReferences {
			ref := &p.OwnerReferences[i]
			ref.APIVersion, ref.Kind = "apps/v1", "ReplicaSet"
			if controller {
				ref.APIVersion, ref.Kind = "v1", "ReplicationController"
			}
		}
	}
	return s
}

// status carries a status over to another type by JSON.
func status(from, to any) {
	data, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(data, to)
	}
	if err != nil {
		panic(err)
	}
}

func (s *state) objects() (all []store.Object) {
	for _, p := range s.pods {
		all = append(all, p)
	}
	return all
}

// upstreams is what upstream's controller does about a state.
func upstreams(t *testing.T, s *state) (did []string, after appsv1.ReplicaSetStatus) {
	t.Helper()
	_, isRC := s.parent.(*v1.ReplicationController)
	list := controllertest.Once(t, append(s.objects(), s.parent), func(ctx context.Context, in controllertest.Cluster) func(context.Context) {
		if isRC {
			c := replication.NewReplicationManager(ctx, in.Informers.Core().V1().Pods(), in.Informers.Core().V1().ReplicationControllers(), in.Client, upstream.BurstReplicas)
			return func(ctx context.Context) { c.Run(ctx, 1) }
		}
		c := upstream.NewReplicaSetController(ctx, in.Informers.Apps().V1().ReplicaSets(), in.Informers.Core().V1().Pods(), in.Client, upstream.BurstReplicas)
		return func(ctx context.Context) { c.Run(ctx, 1) }
	})
	after = statusOf(s.parent)
	for _, a := range list {
		switch a := a.(type) {
		case clienttesting.CreateAction: // an update is one too
			switch o := a.GetObject().(type) {
			case *v1.Pod:
				did = append(did, "create")
			case *appsv1.ReplicaSet, *v1.ReplicationController:
				after = statusOf(o.(store.Object))
			}
		case clienttesting.DeleteAction:
			did = append(did, "delete "+a.GetName())
		case clienttesting.PatchAction:
			if strings.Contains(string(a.GetPatch()), `"$patch":"delete"`) {
				did = append(did, "release "+a.GetName())
			} else {
				did = append(did, "adopt "+a.GetName())
			}
		}
	}
	slices.Sort(did)
	return did, after
}

func statusOf(o store.Object) (out appsv1.ReplicaSetStatus) {
	switch o := o.(type) {
	case *appsv1.ReplicaSet:
		return o.Status
	case *v1.ReplicationController:
		status(o.Status, &out)
	}
	return out
}

// guests is what the guest does about a state.
func guests(t *testing.T, s *state) (did []string, after appsv1.ReplicaSetStatus) {
	t.Helper()
	name := "ReplicaSet"
	if _, ok := s.parent.(*v1.ReplicationController); ok {
		name = "ReplicationController"
	}
	out := controllertest.Ask(t, name, controllertest.BubbleTime, s.parent, s.objects()...)
	for _, c := range out.Create {
		for range c.Count {
			did = append(did, "create")
		}
	}
	for _, d := range out.Delete {
		did = append(did, "delete "+d.UID)
	}
	for _, uid := range out.Adopt {
		did = append(did, "adopt "+uid)
	}
	for _, uid := range out.Release {
		did = append(did, "release "+uid)
	}
	slices.Sort(did)
	return did, controllertest.Status[appsv1.ReplicaSetStatus](t, out)
}

// More are compared with `go test -run Upstream -states 20000`.
var states = flag.Uint64("states", controllertest.Rounds(300, 20_000), "how many invented states are compared with upstream")

func TestTheGuestDoesWhatUpstreamDoes(t *testing.T) {
	t.Parallel()
	for _, controller := range []bool{false, true} {
		for seed := range *states {
			s := invent(inventor{rand.New(rand.NewPCG(seed, 1))}, controller)
			wantDid, want := upstreams(t, &s)
			did, got := guests(t, &s)
			if controller {
				got.TerminatingReplicas = nil // its API has no such field
			}
			if len(want.Conditions)+len(got.Conditions) == 0 {
				want.Conditions, got.Conditions = nil, nil
			}
			if diff := cmp.Diff(wantDid, did); diff != "" {
				t.Errorf("seed %d: deeds (-upstream +guest):\n%s", seed, diff)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("seed %d: status (-upstream +guest):\n%s", seed, diff)
			}
			if t.Failed() {
				text, _ := json.MarshalIndent(map[string]any{"parent": s.parent, "pods": s.pods}, "", " ")
				t.Fatalf("seed %d is of %s", seed, text)
			}
		}
	}
}
