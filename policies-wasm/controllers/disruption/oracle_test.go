package disruption

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
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	scalefake "k8s.io/client-go/scale/fake"
	clienttesting "k8s.io/client-go/testing"
	upstream "k8s.io/kubernetes/pkg/controller/disruption"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/host/controller/controllertest"
	"github.com/berth-dev/berth/host/store"
)

// state is a budget among pods and what owns them.
type state struct {
	budget *policyv1.PodDisruptionBudget
	pods   []*v1.Pod
	owners []store.Object
}

// inventor makes up states.
type inventor struct{ *rand.Rand }

func (r inventor) one(in int) bool { return r.IntN(in) == 0 }

func (r inventor) ago(seconds int) metav1.Time {
	return metav1.NewTime(controllertest.BubbleTime.Add(-time.Duration(r.IntN(seconds)) * time.Second))
}

func (r inventor) amount() intstr.IntOrString {
	if r.one(2) {
		return intstr.FromInt32(r.Int32N(6))
	}
	return intstr.FromString(fmt.Sprintf("%d%%", r.IntN(101)))
}

func (r inventor) state() *state {
	b := pdb()
	switch r.IntN(5) {
	case 0, 1:
		atLeast(r.amount())(b)
	case 2, 3:
		atMost(r.amount())(b)
	}
	b.UID, b.Generation = "pdb", 4
	b.Status = policyv1.PodDisruptionBudgetStatus{
		ObservedGeneration: 3 + r.Int64N(2), CurrentHealthy: r.Int32N(4), DesiredHealthy: r.Int32N(4), ExpectedPods: r.Int32N(4), DisruptionsAllowed: r.Int32N(3),
	}
	if !r.one(3) {
		b.Status.Conditions = []metav1.Condition{{
			Type: policyv1.DisruptionAllowedCondition, Status: []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse}[r.IntN(2)],
			ObservedGeneration: b.Status.ObservedGeneration, LastTransitionTime: r.ago(1000), Reason: policyv1.InsufficientPodsReason,
		}}
	}
	s := &state{budget: b, owners: r.owners()}
	for i := range r.IntN(8) {
		p := pod(fmt.Sprintf("web-%d", i), r.owner())
		p.UID = types.UID(p.Name)
		if !r.one(3) {
			p.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
		}
		if r.one(6) {
			p.DeletionTimestamp, p.Finalizers = ptr.To(metav1.NewTime(controllertest.BubbleTime)), []string{"x/y"}
		}
		if r.one(8) {
			p.Labels = map[string]string{"app": "db"}
		}
		p.Status.Phase = []v1.PodPhase{v1.PodRunning, v1.PodPending, v1.PodFailed}[r.IntN(3)]
		if r.one(4) {
			if b.Status.DisruptedPods == nil {
				b.Status.DisruptedPods = map[string]metav1.Time{}
			}
			b.Status.DisruptedPods[p.Name] = r.ago(200)
		}
		s.pods = append(s.pods, p)
	}
	return s
}

// owner is what a pod is of: mostly something that there is.
func (r inventor) owner() []metav1.OwnerReference {
	switch r.IntN(20) {
	case 0:
		return nil
	case 1:
		return owned("ReplicaSet", "apps/v1", "gone", "gone")
	case 2, 3, 4:
		return owned("StatefulSet", "apps/v1", "set", "set")
	case 5, 6, 7:
		return owned("ReplicationController", "v1", "rc", "rc")
	case 8, 9, 10:
		return owned("ReplicaSet", "apps/v1", "alone", "alone")
	case 11, 12:
		return owned("ReplicaSet", "apps/v1", "web-2", "web-2")
	}
	return owned("ReplicaSet", "apps/v1", "web-1", "web-1")
}

func (r inventor) owners() []store.Object {
	meta := func(name string, owners []metav1.OwnerReference) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name), OwnerReferences: owners}
	}
	n := func() *int32 { return ptr.To(r.Int32N(6)) }
	of := owned("Deployment", "apps/v1", "web", "web")
	return []store.Object{
		&appsv1.Deployment{ObjectMeta: meta("web", nil), Spec: appsv1.DeploymentSpec{Replicas: n()}},
		&appsv1.ReplicaSet{ObjectMeta: meta("web-1", of), Spec: appsv1.ReplicaSetSpec{Replicas: n()}},
		&appsv1.ReplicaSet{ObjectMeta: meta("web-2", of), Spec: appsv1.ReplicaSetSpec{Replicas: n()}},
		&appsv1.ReplicaSet{ObjectMeta: meta("alone", nil), Spec: appsv1.ReplicaSetSpec{Replicas: n()}},
		&appsv1.StatefulSet{ObjectMeta: meta("set", nil), Spec: appsv1.StatefulSetSpec{Replicas: n()}},
		&v1.ReplicationController{ObjectMeta: meta("rc", nil), Spec: v1.ReplicationControllerSpec{Replicas: n()}},
	}
}

func (s *state) others() []store.Object {
	all := slices.Clone(s.owners)
	for _, p := range s.pods {
		all = append(all, p)
	}
	return all
}

// upstreams is what upstream's controller does about a state.
func upstreams(t *testing.T, s *state) (did []string, status policyv1.PodDisruptionBudgetStatus) {
	t.Helper()
	list := controllertest.Once(t, append(s.others(), s.budget), func(ctx context.Context, in controllertest.Cluster) func(context.Context) {
		core, apps := in.Informers.Core().V1(), in.Informers.Apps().V1()
		c := upstream.NewDisruptionController(ctx, core.Pods(), in.Informers.Policy().V1().PodDisruptionBudgets(), core.ReplicationControllers(),
			apps.ReplicaSets(), apps.Deployments(), apps.StatefulSets(), in.Client, testrestmapper.TestOnlyStaticRESTMapper(scheme.Scheme), &scalefake.FakeScaleClient{}, in.Client.Discovery())
		return c.Run
	})
	status = *s.budget.Status.DeepCopy()
	for _, a := range list {
		if a, ok := a.(clienttesting.CreateAction); ok { // an update is one too
			switch o := a.GetObject().(type) {
			case *v1.Event:
				if o.Reason != "NoPods" { // upstream says so at each look, the guest once
					did = append(did, o.Type+" "+o.Reason)
				}
			case *policyv1.PodDisruptionBudget:
				status = o.Status
			}
		}
	}
	slices.Sort(did)
	return did, status
}

// guests is what the guest does about a state.
func guests(t *testing.T, s *state) (did []string, status policyv1.PodDisruptionBudgetStatus) {
	t.Helper()
	out := controllertest.Ask(t, "PodDisruptionBudget", controllertest.BubbleTime, s.budget, s.others()...)
	for _, e := range out.Events {
		if e.Reason != "NoPods" {
			did = append(did, e.Type+" "+e.Reason)
		}
	}
	slices.Sort(did)
	return did, controllertest.Status[policyv1.PodDisruptionBudgetStatus](t, out)
}

// settle leaves out what is told in other words.
func settle(s *policyv1.PodDisruptionBudgetStatus) {
	if len(s.DisruptedPods) == 0 {
		s.DisruptedPods = nil
	}
	for name, at := range s.DisruptedPods {
		s.DisruptedPods[name] = metav1.NewTime(at.UTC())
	}
	for i := range s.Conditions {
		if s.Conditions[i].LastTransitionTime.Time = s.Conditions[i].LastTransitionTime.UTC(); s.Conditions[i].Reason == policyv1.SyncFailedReason {
			s.Conditions[i].Message, _, _ = strings.Cut(s.Conditions[i].Message, "\"")
		}
	}
}

// More are compared with `go test -run Upstream -states 20000`.
var states = flag.Uint64("states", controllertest.Rounds(300, 20_000), "how many invented states are compared with upstream")

func TestTheGuestDoesWhatUpstreamDoes(t *testing.T) {
	t.Parallel()
	for seed := range *states {
		s := inventor{rand.New(rand.NewPCG(seed, 1))}.state()
		wantDid, want := upstreams(t, s)
		did, got := guests(t, s)
		settle(&want)
		settle(&got)
		if diff := cmp.Diff(wantDid, did); diff != "" {
			t.Errorf("seed %d: events (-upstream +guest):\n%s", seed, diff)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("seed %d: status (-upstream +guest):\n%s", seed, diff)
		}
		if t.Failed() {
			text, _ := json.MarshalIndent(map[string]any{"budget": s.budget, "pods": s.pods, "owners": s.owners}, "", " ")
			t.Fatalf("seed %d is of %s", seed, text)
		}
	}
}
