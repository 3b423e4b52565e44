package deployment_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/kubernetes/pkg/controller"
	upstream "k8s.io/kubernetes/pkg/controller/deployment"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/controller/controllertest"
	"github.com/berth-dev/berth/host/store"
)

const (
	revisionKey = "deployment.kubernetes.io/revision"
	desiredKey  = "deployment.kubernetes.io/desired-replicas"
	maxKey      = "deployment.kubernetes.io/max-replicas"
)

// state is a Deployment among ReplicaSets.
type state struct {
	deployment *appsv1.Deployment
	sets       []*appsv1.ReplicaSet
}

// inventor makes up states.
type inventor struct{ *rand.Rand }

func (r inventor) one(in int) bool { return r.IntN(in) == 0 }

func (r inventor) ago(seconds int) metav1.Time {
	return metav1.NewTime(controllertest.BubbleTime.Add(-time.Duration(5+10*r.IntN(seconds/10)) * time.Second))
}

func (r inventor) bound() *intstr.IntOrString {
	if r.one(2) {
		return ptr.To(intstr.FromInt32(r.Int32N(4)))
	}
	return ptr.To(intstr.FromString(fmt.Sprintf("%d%%", r.IntN(101))))
}

func (r inventor) deployment() *appsv1.Deployment {
	d := web(r.Int32N(12))
	d.UID, d.Generation = "deployment", 4
	d.Spec.Template.Spec.Containers[0].Image = fmt.Sprintf("web:%d", r.IntN(4))
	d.Spec.Paused = r.one(8)
	d.Spec.RevisionHistoryLimit = ptr.To(r.Int32N(3))
	if d.Spec.Paused {
		*d.Spec.RevisionHistoryLimit++ // upstream scales a ReplicaSet up and deletes it in one round where none is kept
	}
	d.Spec.ProgressDeadlineSeconds = ptr.To[int32](1<<31 - 1)
	if !r.one(4) {
		d.Spec.ProgressDeadlineSeconds = ptr.To[int32](600)
	}
	d.Spec.MinReadySeconds = 10
	d.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
	if !r.one(5) {
		d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: r.bound(), MaxUnavailable: r.bound()}}
	}
	d.Status = appsv1.DeploymentStatus{
		ObservedGeneration: 3, Replicas: r.Int32N(12), UpdatedReplicas: r.Int32N(4), ReadyReplicas: r.Int32N(8), AvailableReplicas: r.Int32N(8),
	}
	if r.one(12) {
		d.DeletionTimestamp, d.Finalizers = ptr.To(metav1.NewTime(controllertest.BubbleTime)), []string{"x/y"}
	}
	return d
}

// conditions are those of the last round.
func (r inventor) conditions(d *appsv1.Deployment) {
	add := func(kind appsv1.DeploymentConditionType, status v1.ConditionStatus, reason string) {
		at := r.ago(900)
		d.Status.Conditions = append(d.Status.Conditions, appsv1.DeploymentCondition{Type: kind, Status: status, Reason: reason, LastUpdateTime: at, LastTransitionTime: at})
	}
	if !r.one(3) {
		add("Available", []v1.ConditionStatus{"True", "False"}[r.IntN(2)], []string{"MinimumReplicasAvailable", "MinimumReplicasUnavailable"}[r.IntN(2)])
	}
	switch r.IntN(8) {
	case 0, 1:
		add("Progressing", "True", "ReplicaSetUpdated")
	case 2:
		add("Progressing", "True", "NewReplicaSetAvailable")
	case 3:
		add("Progressing", "False", "ProgressDeadlineExceeded")
	case 4:
		add("Progressing", "Unknown", "DeploymentPaused")
	case 5:
		add("Progressing", "True", "NewReplicaSetCreated")
	case 6:
		add("Progressing", "Unknown", "DeploymentResumed")
	}
	if r.one(5) {
		add("ReplicaFailure", "True", "FailedCreate")
	}
}

func (r inventor) set(d *appsv1.Deployment, image, revision int) *appsv1.ReplicaSet {
	template := d.Spec.Template.DeepCopy()
	template.Spec.Containers[0].Image = fmt.Sprintf("web:%d", image)
	hash := controller.ComputeHash(template, nil)
	template.Labels = map[string]string{"app": "web", "pod-template-hash": hash}
	n := r.Int32N(10) * min(1, r.Int32N(3))
	surge, err := intstr.GetScaledValueFromIntOrPercent(intstr.ValueOrDefault(nil, intstr.FromInt32(0)), 0, true)
	if rolling := d.Spec.Strategy.RollingUpdate; rolling != nil {
		surge, err = intstr.GetScaledValueFromIntOrPercent(rolling.MaxSurge, int(*d.Spec.Replicas), true)
	}
	if err != nil {
		panic(err)
	}
	desired := *d.Spec.Replicas
	if r.one(4) {
		desired = r.Int32N(12)
	}
	rs := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web-" + hash, Namespace: "default", UID: types.UID(hash), Labels: template.Labels, Generation: 2,
			CreationTimestamp: metav1.NewTime(controllertest.BubbleTime.Add(-time.Duration(10-revision) * time.Hour)),
			OwnerReferences:   []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "deployment", Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true)}},
			Annotations: map[string]string{
				revisionKey: fmt.Sprint(revision), desiredKey: fmt.Sprint(desired), maxKey: fmt.Sprint(desired + int32(surge)),
			},
		},
		Spec:   appsv1.ReplicaSetSpec{Replicas: &n, MinReadySeconds: 10, Selector: &metav1.LabelSelector{MatchLabels: template.Labels}, Template: *template},
		Status: appsv1.ReplicaSetStatus{Replicas: n, ReadyReplicas: n, AvailableReplicas: n, ObservedGeneration: 2, TerminatingReplicas: ptr.To(r.Int32N(2))},
	}
	if d.Spec.Strategy.RollingUpdate == nil {
		rs.Status.TerminatingReplicas = new(int32) // upstream looks for the pods themselves
	}
	if r.one(2) {
		rs.Status.AvailableReplicas = r.Int32N(n + 1)
	}
	if r.one(3) {
		rs.Status.Replicas = r.Int32N(n + 1) // of more, upstream gives the places away, see TestPodsThatAreAboutToGoHaveTheirPlace
	}
	switch r.IntN(20) {
	case 0:
		rs.OwnerReferences = nil
	case 1:
		if d.Spec.Strategy.RollingUpdate != nil { // or upstream would look for pods
			rs.Status.ObservedGeneration = 1
		}
	case 2:
		rs.Status.Conditions = []appsv1.ReplicaSetCondition{{Type: "ReplicaFailure", Status: v1.ConditionTrue, Reason: "FailedCreate", Message: "quota", LastTransitionTime: r.ago(900)}}
	case 3:
		rs.Labels = map[string]string{"app": "db"}
	}
	return rs
}

func (r inventor) state() *state {
	d := r.deployment()
	s := &state{deployment: d}
	r.conditions(d)
	images := r.Perm(4)[:r.IntN(5)]
	for i, image := range images {
		s.sets = append(s.sets, r.set(d, image, i+1))
	}
	for _, rs := range s.sets {
		// Upstream writes a revision that is wrong at first, and goes on in the next round.
		if rs.Spec.Template.Spec.Containers[0].Image == d.Spec.Template.Spec.Containers[0].Image {
			rs.Annotations[revisionKey] = fmt.Sprint(len(images) + 1)
			rs.Annotations["deployment.kubernetes.io/revision-history"] = "1"
			d.Annotations = map[string]string{revisionKey: fmt.Sprint(len(images) + 1)}
		}
	}
	if r.one(2) {
		s.count()
	}
	return s
}

// count makes the status one that has seen the ReplicaSets as they are.
func (s *state) count() {
	d := s.deployment
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Conditions: d.Status.Conditions}
	for _, rs := range s.sets {
		d.Status.Replicas += rs.Status.Replicas
		d.Status.ReadyReplicas += rs.Status.ReadyReplicas
		d.Status.AvailableReplicas += rs.Status.AvailableReplicas
		if rs.Spec.Template.Spec.Containers[0].Image == d.Spec.Template.Spec.Containers[0].Image {
			d.Status.UpdatedReplicas = rs.Status.Replicas
		}
	}
}

// counted tells whether a status counts as the one before did.
func (s *state) counted(now *appsv1.DeploymentStatus) bool {
	was := &s.deployment.Status
	return was.Replicas == now.Replicas && was.UpdatedReplicas == now.UpdatedReplicas && was.AvailableReplicas == now.AvailableReplicas && was.ObservedGeneration == now.ObservedGeneration
}

// deeds are what became of ReplicaSets.
type deeds struct {
	list []string
	sets map[string]*appsv1.ReplicaSet
}

func newDeeds(s *state) *deeds {
	d := &deeds{sets: map[string]*appsv1.ReplicaSet{}}
	for _, rs := range s.sets {
		d.sets[rs.Name] = rs
	}
	return d
}

func (d *deeds) note(format string, args ...any) {
	d.list = append(d.list, fmt.Sprintf(format, args...))
}

// sorted tells of all ReplicaSets as they are then.
func (d *deeds) sorted() []string {
	for name, rs := range d.sets {
		meta := maps.Clone(rs.Annotations)
		d.note("set %s %s %v %d %d %v", name, rs.Spec.Template.Spec.Containers[0].Image, rs.Spec.Template.Labels, *rs.Spec.Replicas, rs.Spec.MinReadySeconds, meta)
	}
	slices.Sort(d.list)
	return slices.Compact(d.list)
}

// upstreams is what upstream's controller does about a state.
func upstreams(t *testing.T, s *state) (did []string, after appsv1.DeploymentStatus) {
	t.Helper()
	objects := []store.Object{s.deployment}
	for _, rs := range s.sets {
		objects = append(objects, rs)
	}
	list := controllertest.Once(t, objects, func(ctx context.Context, in controllertest.Cluster) func(context.Context) {
		apps := in.Informers.Apps().V1()
		c, err := upstream.NewDeploymentController(ctx, apps.Deployments(), apps.ReplicaSets(), in.Informers.Core().V1().Pods(), in.Client)
		if err != nil {
			t.Fatal(err)
		}
		return func(ctx context.Context) { c.Run(ctx, 1) }
	})
	d, after := newDeeds(s), s.deployment.Status
	for _, a := range list {
		switch a := a.(type) {
		case clienttesting.CreateAction: // an update is one too
			switch o := a.GetObject().(type) {
			case *v1.Event:
				d.note("event %s %s %s", o.Type, o.Reason, o.Message)
			case *appsv1.Deployment:
				after = o.Status
			case *appsv1.ReplicaSet:
				d.sets[o.Name] = o
			}
		case clienttesting.DeleteAction:
			d.note("delete %s", a.GetName())
		case clienttesting.PatchAction:
			if strings.Contains(string(a.GetPatch()), `"$patch":"delete"`) {
				d.note("release %s", a.GetName())
			} else {
				d.note("adopt %s", a.GetName())
			}
		}
	}
	return d.sorted(), after
}

// guests is what the guest does about a state. Upstream makes a ReplicaSet and goes
// on; the guest goes on when it is asked about what it made.
func guests(t *testing.T, s *state) (did []string, after appsv1.DeploymentStatus) {
	t.Helper()
	d := newDeeds(s)
	out := d.ask(t, s.deployment)
	if len(out.Create) > 0 {
		if out.Status != nil || len(out.Patch)+len(out.Delete)+len(out.Events) > 0 || !out.Step {
			t.Errorf("beside a ReplicaSet that may be refused it wants %+v", out)
		}
		out = d.ask(t, s.deployment)
	}
	return d.sorted(), controllertest.Status[appsv1.DeploymentStatus](t, out)
}

// ask asks the guest, and does what it answers.
func (d *deeds) ask(t *testing.T, about *appsv1.Deployment) *abi.ReconcileResult {
	t.Helper()
	var others []store.Object
	names := map[string]string{}
	for _, rs := range d.sets {
		others, names[string(rs.UID)] = append(others, rs), rs.Name
	}
	out := controllertest.Ask(t, "Deployment", controllertest.BubbleTime, about, others...)
	for _, c := range out.Create {
		rs := new(appsv1.ReplicaSet)
		if err := json.Unmarshal(c.Object, rs); err != nil {
			t.Fatal(err)
		}
		rs.Namespace, rs.UID, rs.Generation, rs.CreationTimestamp = about.Namespace, types.UID(rs.Name), 1, metav1.NewTime(controllertest.BubbleTime)
		rs.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(about, appsv1.SchemeGroupVersion.WithKind("Deployment"))}
		d.sets[rs.Name] = rs
	}
	for _, p := range out.Patch {
		if rs := d.sets[names[p.UID]]; rs != nil {
			next := rs.DeepCopy()
			if err := json.Unmarshal(p.Patch, next); err != nil {
				t.Fatal(err)
			}
			d.sets[rs.Name] = next
		}
	}
	for _, x := range out.Delete {
		d.note("delete %s", names[x.UID])
	}
	for _, uid := range out.Adopt {
		d.note("adopt %s", names[uid])
	}
	for _, uid := range out.Release {
		d.note("release %s", names[uid])
	}
	for _, e := range out.Events {
		d.note("event %s %s %s", e.Type, e.Reason, e.Message)
	}
	return out
}

// deletes tells whether a deed is a deletion.
func deletes(did string) bool { return strings.HasPrefix(did, "delete ") }

// settle orders conditions and has all times in one zone.
func settle(s *appsv1.DeploymentStatus) {
	for i := range s.Conditions {
		c := &s.Conditions[i]
		c.LastUpdateTime, c.LastTransitionTime = metav1.NewTime(c.LastUpdateTime.UTC()), metav1.NewTime(c.LastTransitionTime.UTC())
	}
	slices.SortFunc(s.Conditions, func(a, b appsv1.DeploymentCondition) int { return strings.Compare(string(a.Type), string(b.Type)) })
}

// A ReplicaSet's name holds as much of a long one as a name may.
func TestAReplicaSetOfALongNameIsNamedAsUpstreamNamesIt(t *testing.T) {
	t.Parallel()
	s := inventor{rand.New(rand.NewPCG(1, 1))}.state()
	s.deployment.Name, s.sets, s.deployment.DeletionTimestamp, s.deployment.Spec.Paused = strings.Repeat("a", 250), nil, nil, false
	want, _ := upstreams(t, s)
	got, _ := guests(t, s)
	same(t, "deeds", want, got)
}

func TestTheHistoryOfRevisionsStaysShort(t *testing.T) {
	t.Parallel()
	s := inventor{rand.New(rand.NewPCG(2, 1))}.state()
	d := s.deployment
	d.DeletionTimestamp, d.Spec.Paused, d.Spec.Template.Spec.Containers[0].Image = nil, false, "web:1"
	s.sets = []*appsv1.ReplicaSet{inventor{rand.New(rand.NewPCG(2, 1))}.set(d, 1, 1), inventor{rand.New(rand.NewPCG(2, 2))}.set(d, 2, 2000)}
	s.sets[0].Annotations["deployment.kubernetes.io/revision-history"] = strings.Repeat("1000,", 399) + "1000"
	want, _ := upstreams(t, s)
	got, _ := guests(t, s)
	same(t, "deeds", want, got)
}

// More are compared with `go test -run Upstream -states 20000`.
var states = flag.Uint64("states", controllertest.Rounds(300, 20_000), "how many invented states are compared with upstream")

// found are states of more than the usual number that showed something.
var found = []uint64{5506, 11883}

func TestTheGuestDoesWhatUpstreamDoes(t *testing.T) {
	t.Parallel()
	for _, seed := range found {
		compare(t, seed)
	}
	for seed := range *states {
		compare(t, seed)
	}
}

func compare(t *testing.T, seed uint64) {
	t.Helper()
	s := inventor{rand.New(rand.NewPCG(seed, 1))}.state()
	wantDid, want := upstreams(t, s)
	did, got := guests(t, s)
	settle(&want)
	settle(&got)
	if strings.Contains(strings.Join(did, " "), "ScalingReplicaSet") {
		// Upstream counts by what was wanted before this round.
		want.UnavailableReplicas = got.UnavailableReplicas
	}
	if !s.counted(&got) && !s.deployment.Spec.Paused {
		// Upstream tells by the status before whether the roll-out has come to its
		// end, and so takes old ReplicaSets away a round later, or too early.
		counted := *s
		counted.deployment = s.deployment.DeepCopy()
		counted.deployment.Status = got
		counted.deployment.Status.Conditions = s.deployment.Status.Conditions
		recounted, _ := upstreams(t, &counted)
		wantDid = append(slices.DeleteFunc(wantDid, deletes), slices.DeleteFunc(recounted, func(one string) bool { return !deletes(one) })...)
		slices.Sort(wantDid)
	}
	if diff := cmp.Diff(wantDid, did); diff != "" {
		t.Errorf("seed %d: deeds (-upstream +guest):\n%s", seed, diff)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("seed %d: status (-upstream +guest):\n%s", seed, diff)
	}
	if t.Failed() {
		text, _ := json.MarshalIndent(map[string]any{"deployment": s.deployment, "sets": s.sets}, "", " ")
		t.Fatalf("seed %d is of %s", seed, text)
	}
}
