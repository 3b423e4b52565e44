package daemonset

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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/util/flowcontrol"
	kubernetes "k8s.io/kubernetes/pkg/controller"
	upstream "k8s.io/kubernetes/pkg/controller/daemon"
	"k8s.io/kubernetes/pkg/controller/daemon/util"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/controller/controllertest"
	"github.com/berth-dev/berth/host/store"
)

// state is a DaemonSet among nodes, pods and revisions.
type state struct {
	set       *appsv1.DaemonSet
	nodes     []*v1.Node
	pods      []*v1.Pod
	revisions []*appsv1.ControllerRevision
}

// inventor makes up states.
type inventor struct{ *rand.Rand }

func (r inventor) one(in int) bool { return r.IntN(in) == 0 }

func (r inventor) ago() metav1.Time {
	return metav1.NewTime(controllertest.BubbleTime.Add(-time.Duration(5+10*r.IntN(30)) * time.Second))
}

func (r inventor) amount(least int) string {
	if r.one(2) {
		return fmt.Sprint(least + r.IntN(3))
	}
	return fmt.Sprintf("%d%%", least+r.IntN(100))
}

func (r inventor) daemonSet() *appsv1.DaemonSet {
	update := onDelete
	switch r.IntN(5) {
	case 0, 1:
		update = rolling(r.amount(1), "0")
	case 2, 3:
		update = rolling("0", r.amount(1))
	}
	set := agent(image(fmt.Sprintf("i:%d", r.IntN(3))), update)
	set.UID, set.Generation = "set", 4
	set.Spec.MinReadySeconds = 60 * r.Int32N(2)
	set.Spec.RevisionHistoryLimit = ptr.To(r.Int32N(3))
	spec := &set.Spec.Template.Spec
	spec.HostNetwork = r.one(4)
	if r.one(3) {
		on("disk")(set)
	}
	if r.one(4) {
		spec.Tolerations = append(spec.Tolerations, v1.Toleration{Key: "odd", Operator: v1.TolerationOpExists, Effect: []v1.TaintEffect{v1.TaintEffectNoSchedule, ""}[r.IntN(2)]})
	}
	if r.one(4) {
		spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchExpressions: []v1.NodeSelectorRequirement{{Key: "ssd", Operator: []v1.NodeSelectorOperator{v1.NodeSelectorOpExists, v1.NodeSelectorOpDoesNotExist}[r.IntN(2)]}},
		}}}}}
	}
	set.Status = appsv1.DaemonSetStatus{
		ObservedGeneration: 3 + r.Int64N(2), CurrentNumberScheduled: r.Int32N(4), DesiredNumberScheduled: r.Int32N(4), NumberReady: r.Int32N(4),
	}
	if r.one(15) {
		set.DeletionTimestamp, set.Finalizers = ptr.To(metav1.NewTime(controllertest.BubbleTime)), []string{"x/y"}
	}
	return set
}

// revisionOf is the ControllerRevision that upstream makes of the set with an image.
func revisionOf(set *appsv1.DaemonSet, name string, number int64) *appsv1.ControllerRevision {
	set = set.DeepCopy()
	image(name)(set)
	var template map[string]any
	data, err := json.Marshal(set.Spec.Template)
	if err == nil {
		err = json.Unmarshal(data, &template)
	}
	template["$patch"] = "replace"
	patch, err2 := json.Marshal(map[string]any{"spec": map[string]any{"template": template}})
	if err != nil || err2 != nil {
		panic(fmt.Sprint(err, err2))
	}
	hash := kubernetes.ComputeHash(&set.Spec.Template, nil)
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Name: "agent-" + hash, Namespace: "default", UID: types.UID("rev-" + hash), Labels: map[string]string{"app": "agent", revisionLabel: hash},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))},
		},
		Data: runtime.RawExtension{Raw: patch}, Revision: number,
	}
}

func (r inventor) state() *state {
	s := &state{set: r.daemonSet()}
	var hashes []string
	now := s.set.Spec.Template.Spec.Containers[0].Image
	for i, n := range r.Perm(3) {
		if name := fmt.Sprintf("i:%d", n); name != now && !r.one(3) {
			s.revisions = append(s.revisions, revisionOf(s.set, name, int64(i+1)))
		}
	}
	if !r.one(8) {
		s.revisions = append(s.revisions, revisionOf(s.set, now, 4))
	}
	for _, rev := range s.revisions {
		hashes = append(hashes, rev.Labels[revisionLabel])
	}
	hashes = append(hashes, kubernetes.ComputeHash(&s.set.Spec.Template, nil))
	count := 1 + r.IntN(8)
	for i := range count {
		s.nodes = append(s.nodes, r.node(i))
	}
	for i := range r.IntN(2 * count) {
		s.pods = append(s.pods, r.pod(i, fmt.Sprintf("n%d", r.IntN(count+1)), hashes[r.IntN(len(hashes))]))
	}
	// Upstream backs off before it deletes a second one that failed on a node.
	failed := 0
	for _, p := range s.pods {
		if p.Status.Phase == v1.PodFailed && p.DeletionTimestamp == nil {
			if failed++; failed > 1 {
				p.Status.Phase = v1.PodRunning
			}
		}
	}
	return s
}

func (r inventor) node(i int) *v1.Node {
	n := machine(fmt.Sprintf("n%d", i))
	if !r.one(3) {
		labelled("disk")(n)
	}
	if r.one(2) {
		labelled("ssd")(n)
	}
	if r.one(5) {
		tainted("odd", []v1.TaintEffect{v1.TaintEffectNoSchedule, v1.TaintEffectNoExecute, v1.TaintEffectPreferNoSchedule}[r.IntN(3)])(n)
	}
	if r.one(6) {
		tainted([]string{"node.kubernetes.io/unschedulable", "node.kubernetes.io/network-unavailable"}[r.IntN(2)], v1.TaintEffectNoSchedule)(n)
	}
	if r.one(6) {
		tainted("node.kubernetes.io/not-ready", v1.TaintEffectNoExecute)(n)
	}
	return n
}

func (r inventor) pod(i int, node, hash string) *v1.Pod {
	name := fmt.Sprintf("agent-%d", i)
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", UID: types.UID(name), Labels: map[string]string{"app": "agent", revisionLabel: hash},
			CreationTimestamp: metav1.NewTime(controllertest.BubbleTime.Add(-time.Hour - time.Duration(i)*time.Minute)),
			OwnerReferences:   []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", UID: "set", Controller: ptr.To(true)}},
		},
		Spec:   v1.PodSpec{NodeName: node},
		Status: v1.PodStatus{Phase: v1.PodRunning},
	}
	if r.one(6) {
		p.Spec.NodeName, p.Status.Phase = "", v1.PodPending
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchFields: []v1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: v1.NodeSelectorOpIn, Values: []string{node}}},
		}}}}}
	}
	if !r.one(3) {
		p.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: r.ago()}}
	}
	switch r.IntN(16) {
	case 0:
		p.Status.Phase = v1.PodFailed
	case 1:
		p.Status.Phase = v1.PodSucceeded
	case 2:
		p.OwnerReferences = nil
	case 3:
		p.Labels["app"] = "db"
	case 4, 5:
		p.DeletionTimestamp, p.Finalizers = ptr.To(metav1.NewTime(controllertest.BubbleTime)), []string{"x/y"}
		if r.one(2) {
			p.Status.Phase = v1.PodFailed
		}
	}
	return p
}

func (s *state) others() (all []store.Object) {
	for _, n := range s.nodes {
		all = append(all, n)
	}
	for _, p := range s.pods {
		all = append(all, p)
	}
	for _, r := range s.revisions {
		all = append(all, r)
	}
	return all
}

func described(p *v1.Pod) string {
	return fmt.Sprintf("create %v %v %v", p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms, p.Labels[revisionLabel], p.Spec.Tolerations)
}

// upstreams is what upstream's controller does about a state.
func upstreams(t *testing.T, s *state) (did []string, status appsv1.DaemonSetStatus) {
	t.Helper()
	list := controllertest.Once(t, append(s.others(), s.set), func(ctx context.Context, in controllertest.Cluster) func(context.Context) {
		apps, core := in.Informers.Apps().V1(), in.Informers.Core().V1()
		c, err := upstream.NewDaemonSetsController(ctx, apps.DaemonSets(), apps.ControllerRevisions(), core.Pods(), core.Nodes(), in.Client,
			flowcontrol.NewBackOff(time.Second, 15*time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		return func(ctx context.Context) { c.Run(ctx, 1) }
	})
	status, written := s.set.Status, false
	for _, a := range list {
		if update, ok := a.(clienttesting.UpdateAction); ok && a.GetVerb() == "update" {
			// Nodes have it look again, while it waits to see what it wrote.
			if o, ok := update.GetObject().(*appsv1.DaemonSet); ok && !written {
				status, written = o.Status, true
			}
			continue
		}
		if text := s.deed(a); text != "" {
			did = append(did, text)
		}
	}
	slices.Sort(did)
	return slices.Compact(did), status
}

// deed is what an action of upstream's does, "" where it does not matter.
func (s *state) deed(a clienttesting.Action) string {
	switch a := a.(type) {
	case clienttesting.CreateAction:
		switch o := a.GetObject().(type) {
		case *v1.Pod:
			return described(o)
		case *v1.Event:
			if strings.HasSuffix(o.Reason, "DaemonPod") {
				return fmt.Sprintf("event %s %s %s", o.Type, o.Reason, o.Message)
			}
		case *appsv1.ControllerRevision:
			return fmt.Sprintf("revision %s %d %v", o.Name, o.Revision, o.Labels)
		}
	case clienttesting.DeleteAction:
		// Upstream deletes some twice.
		if !slices.ContainsFunc(s.pods, func(p *v1.Pod) bool { return p.Name == a.GetName() && p.DeletionTimestamp != nil }) {
			return "delete " + a.GetName()
		}
	case clienttesting.PatchAction:
		switch {
		case a.GetResource().Resource == "events":
		case strings.Contains(string(a.GetPatch()), `"$patch":"delete"`):
			return "release " + a.GetName()
		default:
			return "adopt " + a.GetName()
		}
	}
	return ""
}

// guests is what the guest does about a state. Upstream makes a revision and goes on;
// the guest goes on when it is asked about what it made.
func guests(t *testing.T, s *state) (did []string, status appsv1.DaemonSetStatus) {
	t.Helper()
	did, out := asked(t, s)
	for _, c := range out.Create {
		rev := new(appsv1.ControllerRevision)
		if err := json.Unmarshal(c.Object, rev); err != nil {
			t.Fatal(err)
		}
		if rev.Kind != "ControllerRevision" {
			continue
		}
		if len(out.Create) > 1 || len(out.Delete) > 0 || out.Status != nil || !out.Step {
			t.Errorf("beside a revision that may be refused it does %q, status %s", did, out.Status)
		}
		rev.Namespace, rev.UID = s.set.Namespace, types.UID(rev.Name)
		rev.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(s.set, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))}
		next := *s
		next.revisions = append(slices.Clone(s.revisions), rev)
		var more []string
		more, out = asked(t, &next)
		known := func(one string) bool { return slices.Contains(did, one) } // it adopts what it has not seen adopted
		did = append(did, slices.DeleteFunc(more, known)...)
		break
	}
	if status = s.set.Status; len(out.Status) > 0 {
		status = controllertest.Status[appsv1.DaemonSetStatus](t, out)
	}
	slices.Sort(did)
	return did, status
}

// asked is one answer, and what it does.
func asked(t *testing.T, s *state) (did []string, out *abi.ReconcileResult) {
	t.Helper()
	names := map[string]string{}
	for _, o := range s.others() {
		names[string(o.GetUID())] = o.GetName()
	}
	out = controllertest.Ask(t, "DaemonSet", controllertest.BubbleTime, s.set, s.others()...)
	for _, c := range out.Create {
		var o struct {
			v1.Pod
			Revision int64
		}
		if err := json.Unmarshal(c.Object, &o); err != nil {
			t.Fatal(err)
		}
		if o.Kind == "Pod" {
			did = append(did, described(&o.Pod))
		} else {
			did = append(did, fmt.Sprintf("revision %s %d %v", o.Name, o.Revision, o.Labels))
		}
	}
	for _, p := range out.Patch {
		did = append(did, fmt.Sprintf("patch %s %s", names[p.UID], p.Patch))
	}
	for _, d := range out.Delete {
		did = append(did, "delete "+names[d.UID])
	}
	for _, uid := range out.Adopt {
		did = append(did, "adopt "+names[uid])
	}
	for _, uid := range out.Release {
		did = append(did, "release "+names[uid])
	}
	for _, e := range out.Events {
		did = append(did, fmt.Sprintf("event %s %s %s", e.Type, e.Reason, e.Message))
	}
	return did, out
}

// withoutReplacements leaves out the pods made where another ended: upstream makes
// them a round later than the guest.
func (s *state) withoutReplacements(did []string) []string {
	return slices.DeleteFunc(did, func(one string) bool {
		return strings.HasPrefix(one, "create") && slices.ContainsFunc(s.pods, func(p *v1.Pod) bool {
			ended := p.Status.Phase == v1.PodFailed || p.Status.Phase == v1.PodSucceeded
			return ended && strings.Contains(one, "["+p.Spec.NodeName+"]")
		})
	})
}

// stuck tells whether upstream may not go on with a roll-out that makes newer pods
// beside older ones: with an error, where an older one is alone on a node that is not
// there; and in silence, where it deletes once more what no such node will ever run.
func (s *state) stuck(t *testing.T) bool {
	t.Helper()
	rolling := s.set.Spec.UpdateStrategy.RollingUpdate
	if rolling == nil || rolling.MaxSurge == nil || rolling.MaxSurge.String() == "0" || rolling.MaxSurge.String() == "0%" {
		return false
	}
	newest := kubernetes.ComputeHash(&s.set.Spec.Template, nil)
	var older, newer []string
	for _, p := range s.pods {
		name, err := util.GetTargetNodeName(p)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case p.Labels["app"] != "agent":
			continue
		case p.DeletionTimestamp != nil && p.Spec.NodeName == "" && !s.has(name):
			return true
		case p.DeletionTimestamp != nil:
			continue
		}
		if p.Labels[revisionLabel] == newest {
			newer = append(newer, name)
		} else {
			older = append(older, name)
		}
	}
	return slices.ContainsFunc(older, func(name string) bool {
		return !slices.Contains(newer, name) && !s.has(name)
	})
}

func (s *state) has(node string) bool {
	return slices.ContainsFunc(s.nodes, func(n *v1.Node) bool { return n.Name == node })
}

// rolls tells whether a deed may be a roll-out's.
func rolls(did string) bool {
	return strings.HasPrefix(did, "create") || strings.HasPrefix(did, "delete")
}

// anyOf leaves out which pods are changed over first, where the other changes others:
// upstream goes by the order of a map.
func anyOf(did, others []string) []string {
	var out []string
	for _, one := range did {
		if verb, _, _ := strings.Cut(one, " "); (verb == "delete" || verb == "create") && !slices.Contains(others, one) {
			one = verb + " one"
		}
		out = append(out, one)
	}
	slices.Sort(out)
	return out
}

// More are compared with `go test -run Upstream -states 20000`.
var states = flag.Uint64("states", controllertest.Rounds(300, 20_000), "how many invented states are compared with upstream")

// found are states of more than the usual number that showed something.
var found = []uint64{3751, 14226}

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
	wantDid, did = s.withoutReplacements(wantDid), s.withoutReplacements(did)
	if s.stuck(t) {
		did = slices.DeleteFunc(did, func(one string) bool { return rolls(one) && !slices.Contains(wantDid, one) })
	}
	if s.set.Spec.UpdateStrategy.RollingUpdate != nil {
		wantDid, did = anyOf(wantDid, did), anyOf(did, wantDid)
	}
	if diff := cmp.Diff(wantDid, did); diff != "" {
		t.Errorf("seed %d: deeds (-upstream +guest):\n%s", seed, diff)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("seed %d: status (-upstream +guest):\n%s", seed, diff)
	}
	if t.Failed() {
		text, _ := json.MarshalIndent(map[string]any{"set": s.set, "nodes": s.nodes, "pods": s.pods}, "", " ")
		t.Fatalf("seed %d is of %s", seed, text)
	}
}
