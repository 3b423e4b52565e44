package statefulset

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
	"k8s.io/kubernetes/pkg/controller/history"
	upstream "k8s.io/kubernetes/pkg/controller/statefulset"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/controller/controllertest"
	"github.com/berth-dev/berth/host/store"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// state is a set among what belongs to it.
type state struct {
	set       *appsv1.StatefulSet
	pods      []*v1.Pod
	claims    []*v1.PersistentVolumeClaim
	revisions []*appsv1.ControllerRevision
}

// invent makes up a state.
func invent(t *testing.T, r *rand.Rand) *state {
	t.Helper()
	one := func(n int) bool { return r.IntN(n) == 0 }
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	policies := []appsv1.PersistentVolumeClaimRetentionPolicyType{keep, drop}
	set := web(r.Int32N(5), minReady(10*r.Int32N(2)))
	set.UID, set.Generation, set.CreationTimestamp = "set", 3, metav1.NewTime(now.Add(-time.Hour))
	set.Spec.PodManagementPolicy = appsv1.OrderedReadyPodManagement
	if one(2) {
		parallel(set)
	}
	if one(3) {
		from(r.Int32N(3))(set)
	}
	if !one(4) {
		withClaims(policies[r.IntN(2)], policies[r.IntN(2)])(set)
		if one(3) {
			more := set.Spec.VolumeClaimTemplates[0].DeepCopy()
			more.Name, more.Labels = "log", nil
			set.Spec.VolumeClaimTemplates = append(set.Spec.VolumeClaimTemplates, *more)
		}
	}
	set.Spec.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
	if partition(r.Int32N(3) * r.Int32N(2))(set); one(5) {
		set.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
	}
	limit := r.Int32N(3)
	set.Spec.RevisionHistoryLimit = &limit

	s := &state{set: set}
	image(pick("i:1", "i:2", "i:3"))(set)
	var names []string
	for n, i := range r.Perm(3)[:r.IntN(4)] {
		rev := revisionOf(t, set, fmt.Sprintf("i:%d", i+1), int64(n+1))
		s.revisions = append(s.revisions, rev)
		names = append(names, rev.Name)
	}
	names = append(names, "web-gone")
	set.Status = appsv1.StatefulSetStatus{
		ObservedGeneration: 2 + r.Int64N(2), CurrentRevision: pick(names...), UpdateRevision: pick(names...), CurrentReplicas: r.Int32N(4),
		Replicas: r.Int32N(4), ReadyReplicas: r.Int32N(4), AvailableReplicas: r.Int32N(4), UpdatedReplicas: r.Int32N(4), CollisionCount: new(int32),
	}
	if one(12) {
		at := metav1.NewTime(now)
		set.DeletionTimestamp, set.Finalizers = &at, []string{"x/y"}
	}
	calm := one(2) // most pods are as they should be
	for ordinal := range 7 {
		if one(3) || calm && ordinal > 4 {
			continue
		}
		p := s.pod(r, ordinal, pick(names...), calm)
		s.pods = append(s.pods, p)
	}
	for ordinal := range 7 {
		for _, template := range set.Spec.VolumeClaimTemplates {
			if !one(3) {
				s.claims = append(s.claims, s.claim(r, fmt.Sprintf("%s-web-%d", template.Name, ordinal), ordinal, calm))
			}
		}
	}
	return s
}

func (s *state) pod(r *rand.Rand, ordinal int, revision string, calm bool) *v1.Pod {
	one := func(n int) bool { return r.IntN(n) == 0 }
	name := fmt.Sprintf("web-%d", ordinal)
	yes := true
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", UID: types.UID("uid-" + name),
			Labels: map[string]string{"app": "web", nameLabel: name, indexLabel: fmt.Sprint(ordinal), revisionLabel: revision},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "StatefulSet", Name: "web", UID: "set", Controller: &yes, BlockOwnerDeletion: &yes,
			}},
		},
		Status: v1.PodStatus{Phase: v1.PodRunning},
	}
	for _, template := range s.set.Spec.VolumeClaimTemplates {
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: template.Name, VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: template.Name + "-" + name},
		}})
	}
	if !one(4) || calm {
		p.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))}}
		if one(4) {
			p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(-time.Duration(r.IntN(20)) * time.Second))
		}
	}
	switch r.IntN(12) {
	case 0:
		p.Status.Phase, p.Status.Conditions = v1.PodPending, nil
	case 1:
		p.Status.Phase = v1.PodFailed
	case 2:
		p.Status.Phase = v1.PodSucceeded
	case 3:
		at := metav1.NewTime(now)
		p.DeletionTimestamp, p.Finalizers = &at, []string{"x/y"}
	case 4:
		delete(p.Labels, nameLabel)
	case 5:
		p.Spec.Volumes = nil
	}
	return p
}

func (s *state) claim(r *rand.Rand, name string, ordinal int, calm bool) *v1.PersistentVolumeClaim {
	yes := true
	pod := fmt.Sprintf("web-%d", ordinal)
	ref := func(apiVersion, kind, name, uid string, controls bool) metav1.OwnerReference {
		o := metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, UID: types.UID(uid)}
		if controls {
			o.Controller, o.BlockOwnerDeletion = &yes, &yes
		}
		return o
	}
	c := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-" + name)}}
	owners := []metav1.OwnerReference{
		ref("apps/v1", "StatefulSet", "web", "set", true), ref("v1", "Pod", pod, "uid-"+pod, true),
		ref("apps/v1", "StatefulSet", "web", "set-before", true), ref("v1", "Pod", pod, "uid-before", true),
		ref("apps/v1", "StatefulSet", "web", "set", false), ref("v1", "ConfigMap", "other", "other", true), ref("v1", "ConfigMap", "other", "other", false),
	}
	for range r.IntN(3) {
		o := owners[r.IntN(len(owners))]
		same := func(have metav1.OwnerReference) bool {
			return have.Kind == o.Kind || have.Controller != nil && o.Controller != nil
		}
		if !slices.ContainsFunc(c.OwnerReferences, same) {
			c.OwnerReferences = append(c.OwnerReferences, o)
		}
	}
	if !calm && r.IntN(12) == 0 {
		at := metav1.NewTime(now)
		c.DeletionTimestamp, c.Finalizers = &at, []string{"kubernetes.io/pvc-protection"}
	}
	return c
}

// revisionOf is the ControllerRevision that upstream makes of the set with that
// image.
func revisionOf(t *testing.T, set *appsv1.StatefulSet, name string, number int64) *appsv1.ControllerRevision {
	t.Helper()
	set = set.DeepCopy()
	image(name)(set)
	data, err := json.Marshal(set.Spec.Template)
	if err != nil {
		t.Fatal(err)
	}
	var template map[string]any
	if err := json.Unmarshal(data, &template); err != nil {
		t.Fatal(err)
	}
	template["$patch"] = "replace"
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"template": template}})
	if err != nil {
		t.Fatal(err)
	}
	kind := appsv1.SchemeGroupVersion.WithKind("StatefulSet")
	rev, err := history.NewControllerRevision(set, kind, set.Spec.Template.Labels, runtime.RawExtension{Raw: patch}, number, new(int32))
	if err != nil {
		t.Fatal(err)
	}
	rev.Namespace, rev.UID = "default", types.UID("uid-"+rev.Name)
	return rev
}

// oracle is where upstream's control writes, and what it wrote.
type oracle struct {
	mu    sync.Mutex
	state *state
	// claims are as they are after its writes.
	claims map[string]*v1.PersistentVolumeClaim
	did    []string
	status *appsv1.StatefulSetStatus
}

func (o *oracle) note(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.did = append(o.did, fmt.Sprintf(format, args...))
}

func (o *oracle) CreatePod(_ context.Context, p *v1.Pod, _ *appsv1.StatefulSet) error {
	o.note("create %s", describe(p))
	return nil
}

func (o *oracle) GetPod(_, name string) (*v1.Pod, error) {
	for _, p := range o.state.pods {
		if p.Name == name {
			return p, nil
		}
	}
	return nil, apierrors.NewNotFound(v1.Resource("pods"), name)
}

// UpdatePod refuses what the API does.
func (o *oracle) UpdatePod(p *v1.Pod, _ *appsv1.StatefulSet) error {
	for _, was := range o.state.pods {
		if was.Name == p.Name && !cmp.Equal(was.Spec.Volumes, p.Spec.Volumes) {
			return fmt.Errorf("volumes of %s cannot change", p.Name)
		}
		if was.Name == p.Name && was.Labels[nameLabel] != p.Labels[nameLabel] {
			o.note("label %s %s %s", p.Name, p.Labels[nameLabel], p.Labels[indexLabel])
		}
	}
	return nil
}

func (o *oracle) DeletePod(p *v1.Pod) error {
	o.note("delete %s", p.Name)
	return nil
}

// CreateClaim gives a claim at once the owner that upstream's next round would.
func (o *oracle) CreateClaim(c *v1.PersistentVolumeClaim, set *appsv1.StatefulSet) error {
	if set.Spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted == drop {
		c = c.DeepCopy()
		c.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}
	}
	return o.UpdateClaim(c, set)
}

func (o *oracle) GetClaim(_, name string) (*v1.PersistentVolumeClaim, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if c := o.claims[name]; c != nil {
		return c, nil
	}
	return nil, apierrors.NewNotFound(v1.Resource("persistentvolumeclaims"), name)
}

func (o *oracle) UpdateClaim(c *v1.PersistentVolumeClaim, _ *appsv1.StatefulSet) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.claims[c.Name] = c.DeepCopy()
	return nil
}

// noteClaims tells what became of claims.
func (o *oracle) noteClaims() {
	for name, c := range o.claims {
		at := slices.IndexFunc(o.state.claims, func(was *v1.PersistentVolumeClaim) bool { return was.Name == name })
		switch {
		case at < 0:
			o.note("create claim %v %s", c.Labels, owners(name, c.OwnerReferences))
		case !cmp.Equal(o.state.claims[at].OwnerReferences, c.OwnerReferences):
			o.note("own %s", owners(name, c.OwnerReferences))
		}
	}
}

func (o *oracle) UpdateStatefulSetStatus(_ context.Context, _ *appsv1.StatefulSet, status *appsv1.StatefulSetStatus) error {
	o.status = status.DeepCopy()
	return nil
}

func owners(name string, refs []metav1.OwnerReference) string {
	text := name
	for _, ref := range refs {
		text += fmt.Sprintf(" %s/%s/%s=%s,%v,%v", ref.APIVersion, ref.Kind, ref.Name, ref.UID, ref.Controller != nil, ref.BlockOwnerDeletion != nil)
	}
	return text
}

func describe(p *v1.Pod) string {
	var volumes []string
	for _, v := range p.Spec.Volumes {
		name := v.Name
		if v.PersistentVolumeClaim != nil {
			name += "=" + v.PersistentVolumeClaim.ClaimName
		}
		volumes = append(volumes, name)
	}
	slices.Sort(volumes)
	return fmt.Sprintf("%s %v %s %s.%s %v", p.Name, p.Labels, p.Spec.Containers[0].Image, p.Spec.Hostname, p.Spec.Subdomain, volumes)
}

// upstreams is what upstream's control does about a state.
func upstreams(t *testing.T, s *state) (did []string, status *appsv1.StatefulSetStatus) {
	t.Helper()
	recorder := record.NewFakeRecorder(1000)
	informer := informers.NewSharedInformerFactory(fake.NewClientset(), 0).Apps().V1().ControllerRevisions()
	for _, r := range s.revisions {
		if err := informer.Informer().GetIndexer().Add(r.DeepCopy()); err != nil {
			t.Fatal(err)
		}
	}
	o := &oracle{state: s, claims: map[string]*v1.PersistentVolumeClaim{}}
	for _, c := range s.claims {
		o.claims[c.Name] = c
	}
	control := upstream.NewDefaultStatefulSetControl(upstream.NewStatefulPodControlFromManager(o, recorder), o, history.NewFakeHistory(informer))
	_, _ = control.UpdateStatefulSet(t.Context(), s.set.DeepCopy(), s.pods, now) // its error is in its events
	o.noteClaims()
	left := map[string]bool{}
	for _, obj := range informer.Informer().GetIndexer().List() {
		r := obj.(*appsv1.ControllerRevision)
		left[r.Name] = true
		at := slices.IndexFunc(s.revisions, func(was *appsv1.ControllerRevision) bool { return was.Name == r.Name })
		switch {
		case at < 0 && s.set.DeletionTimestamp == nil:
			o.note("revision %s %d %v %v %s", r.Name, r.Revision, r.Labels, r.Annotations, r.Data.Raw)
		case at >= 0 && s.revisions[at].Revision != r.Revision:
			o.note("renumber %s %d", r.Name, r.Revision)
		}
	}
	for _, r := range s.revisions {
		if !left[r.Name] {
			o.note("forget %s", r.Name)
		}
	}
	close(recorder.Events)
	for e := range recorder.Events {
		o.note("event %s", shortened(e))
	}
	slices.Sort(o.did)
	return o.did, o.status
}

// shortened leaves out why something failed where the API words it, or where
// several claims are named in any order.
func shortened(event string) string {
	if strings.Contains(event, "FailedUpdate") || strings.Contains(event, "error: [") {
		event, _, _ = strings.Cut(event, "failed error")
	}
	return event
}

// guests is what the guest does about a state. Upstream makes a revision and goes on;
// the guest goes on when it is asked about what it made.
func guests(t *testing.T, s *state) (did []string, status *appsv1.StatefulSetStatus) {
	t.Helper()
	did, status, made := asked(t, s)
	if made != nil {
		if len(did) > 1 || status != nil {
			t.Errorf("beside a revision that may be refused it does %q, status %+v", did, status)
		}
		next := *s
		next.revisions = append(slices.Clone(s.revisions), made)
		var more []string
		more, status, _ = asked(t, &next)
		did = append(did, more...)
	}
	slices.Sort(did)
	return did, status
}

// asked is one answer, and the revision that it makes.
func asked(t *testing.T, s *state) (did []string, status *appsv1.StatefulSetStatus, made *appsv1.ControllerRevision) {
	t.Helper()
	others := []store.Object{}
	names := map[string]string{}
	for _, p := range s.pods {
		others, names[string(p.UID)] = append(others, p), p.Name
	}
	for _, c := range s.claims {
		others, names[string(c.UID)] = append(others, c), c.Name
	}
	for _, r := range s.revisions {
		others, names[string(r.UID)] = append(others, r), r.Name
	}
	out := controllertest.Ask(t, "StatefulSet", now, s.set, others...)
	note := func(format string, args ...any) { did = append(did, fmt.Sprintf(format, args...)) }
	for _, c := range out.Create {
		text, r := created(t, s, c)
		if made = r; s.set.DeletionTimestamp == nil {
			note("%s", text)
		}
		if c.Success != "" {
			note("event Normal SuccessfulCreate %s", c.Success)
		}
	}
	for _, d := range out.Delete {
		if d.Success == "" {
			note("forget %s", names[d.UID])
			continue
		}
		note("delete %s", names[d.UID])
		note("event Normal SuccessfulDelete %s", d.Success)
	}
	for _, p := range out.Patch {
		note("%s", patched(t, names[p.UID], p))
	}
	for _, e := range out.Events {
		note("event %s", shortened(e.Type+" "+e.Reason+" "+e.Message))
	}
	if len(out.Status) > 0 {
		got := controllertest.Status[appsv1.StatefulSetStatus](t, out)
		status = &got
	}
	return did, status, made
}

func patched(t *testing.T, name string, p abi.Patch) string {
	t.Helper()
	var change struct {
		Revision int64
		Metadata struct {
			Labels          map[string]string
			OwnerReferences *[]metav1.OwnerReference
		}
	}
	if err := json.Unmarshal(p.Patch, &change); err != nil {
		t.Fatalf("%v: %s", err, p.Patch)
	}
	switch {
	case change.Revision != 0:
		return fmt.Sprintf("renumber %s %d", name, change.Revision)
	case change.Metadata.OwnerReferences != nil:
		return "own " + owners(name, *change.Metadata.OwnerReferences)
	}
	return fmt.Sprintf("label %s %s %s", name, change.Metadata.Labels[nameLabel], change.Metadata.Labels[indexLabel])
}

// created is what an answer makes; a revision too as it is then.
func created(t *testing.T, s *state, c abi.Creation) (string, *appsv1.ControllerRevision) {
	t.Helper()
	var meta metav1.TypeMeta
	decode := func(into any) {
		if err := json.Unmarshal(c.Object, into); err != nil {
			t.Fatalf("%v: %s", err, c.Object)
		}
	}
	decode(&meta)
	switch meta.Kind {
	case "ControllerRevision":
		r := new(appsv1.ControllerRevision)
		decode(r)
		text := fmt.Sprintf("revision %s %d %v %v %s", r.Name, r.Revision, r.Labels, r.Annotations, r.Data.Raw)
		r.Namespace, r.UID = s.set.Namespace, types.UID(r.Name)
		r.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(s.set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}
		return text, r
	case "PersistentVolumeClaim":
		claim := new(v1.PersistentVolumeClaim)
		decode(claim)
		return fmt.Sprintf("create claim %v %s", claim.Labels, owners(claim.Name, claim.OwnerReferences)), nil
	}
	p := new(v1.Pod)
	if c.From != "" {
		template := s.set.Spec.Template.DeepCopy()
		p.Spec, p.Labels = template.Spec, template.Labels
		if strings.Contains(string(c.Object), `"volumes"`) {
			p.Spec.Volumes = nil
		}
	}
	decode(p)
	return "create " + describe(p), nil
}

// compare asks both about the same invented states.
func compare(t *testing.T, states uint64, say ...func(*appsv1.StatefulSet)) {
	t.Helper()
	for seed := range states {
		s := invent(t, rand.New(rand.NewPCG(seed, 1)))
		for _, f := range say {
			f(s.set)
		}
		wantDid, wantStatus := upstreams(t, s)
		did, status := guests(t, s)
		if diff := cmp.Diff(wantDid, did); diff != "" {
			t.Errorf("seed %d: deeds (-upstream +guest):\n%s", seed, diff)
		}
		if diff := cmp.Diff(wantStatus, status); diff != "" {
			t.Errorf("seed %d: status (-upstream +guest):\n%s", seed, diff)
		}
		if t.Failed() {
			text, _ := json.MarshalIndent(map[string]any{"set": s.set, "pods": s.pods, "claims": s.claims}, "", " ")
			t.Fatalf("seed %d is of %s", seed, text)
		}
	}
}

// More are compared with `go test -run Upstream -states 20000`.
var states = flag.Uint64("states", controllertest.Rounds(300, 20_000), "how many invented states are compared with upstream")

func TestTheGuestDoesWhatUpstreamDoes(t *testing.T) {
	t.Parallel()
	compare(t, *states)
}

// TestUpstreamsGateOfMaxUnavailable opens upstream's gate, which is the whole
// process's: it runs before those that are parallel.
func TestUpstreamsGateOfMaxUnavailable(t *testing.T) { //nolint:paralleltest // as said above
	gate := func(open bool) {
		if err := utilfeature.DefaultMutableFeatureGate.Set(fmt.Sprintf("MaxUnavailableStatefulSet=%v", open)); err != nil {
			t.Fatal(err)
		}
	}
	gate(true)
	defer gate(false)
	for _, most := range []string{"1", "2", "10%", "70%"} {
		value := intstr.Parse(most)
		compare(t, *states/4, func(s *appsv1.StatefulSet) {
			if s.Spec.UpdateStrategy.RollingUpdate == nil {
				partition(0)(s)
			}
			s.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = &value
		})
	}
}
