package job

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	upstream "k8s.io/kubernetes/pkg/controller/job"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/host/controller/controllertest"
	"github.com/berth-dev/berth/host/store"
)

// now is when a bubble of testing/synctest begins.
var now = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// state is a job among its pods.
type state struct {
	job  *batchv1.Job
	pods []*v1.Pod
}

// inventor makes up states.
type inventor struct{ *rand.Rand }

func (r inventor) one(in int) bool { return r.IntN(in) == 0 }

func (r inventor) number(below int32) *int32 { return ptr.To(r.Int32N(below)) }

func (r inventor) ago(seconds int) metav1.Time {
	return metav1.NewTime(now.Add(-time.Duration(r.IntN(seconds)) * time.Second))
}

func (r inventor) state() *state {
	j := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: "pi", Namespace: "default", UID: "job", Generation: 1, CreationTimestamp: metav1.NewTime(now.Add(-time.Hour)),
		},
		Spec: batchv1.JobSpec{
			Parallelism: r.number(5), Completions: r.number(7), BackoffLimit: r.number(5),
			CompletionMode: ptr.To(batchv1.NonIndexedCompletion), Suspend: ptr.To(r.one(6)),
			Selector:             &metav1.LabelSelector{MatchLabels: map[string]string{"app": "pi"}},
			PodReplacementPolicy: ptr.To(batchv1.TerminatingOrFailed),
			Template: v1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "pi"}},
				Spec: v1.PodSpec{
					RestartPolicy: v1.RestartPolicyNever, Containers: []v1.Container{{Name: "c", Image: "i:1", Args: []string{"<&>"}}, {Name: "d", Image: "i:2"}},
				},
			},
		},
	}
	spec := &j.Spec
	if r.one(2) {
		r.index(spec)
	} else if r.one(4) {
		spec.Completions = nil
	}
	if r.one(5) {
		spec.Template.Spec.RestartPolicy = v1.RestartPolicyOnFailure
	}
	if r.one(4) {
		spec.ActiveDeadlineSeconds = ptr.To(5 + r.Int64N(60))
	}
	if r.one(4) {
		spec.PodReplacementPolicy = ptr.To(batchv1.Failed)
	}
	if r.one(3) {
		r.failurePolicy(spec)
	}
	if r.one(4) {
		spec.Template.Finalizers = []string{"x/y"}
		spec.Template.Annotations = map[string]string{"note": "a"}
		spec.Template.Spec.InitContainers = []v1.Container{{Name: "init", Image: "i:1"}}
		spec.Template.Spec.Containers[0].Env = []v1.EnvVar{{Name: "A", Value: "1"}}
		spec.Template.Spec.Containers[1].Env = []v1.EnvVar{{Name: "JOB_COMPLETION_INDEX", Value: "7"}}
	}
	if r.one(15) {
		at := metav1.NewTime(now)
		j.DeletionTimestamp, j.Finalizers = &at, []string{"x/y"}
	}
	if r.one(30) {
		spec.ManagedBy = ptr.To("example.com/other")
	}
	s := &state{job: j}
	for i := range r.IntN(9) {
		s.pods = append(s.pods, r.pod(i))
	}
	r.status(s)
	return s
}

func (r inventor) index(spec *batchv1.JobSpec) {
	spec.CompletionMode = ptr.To(batchv1.IndexedCompletion)
	if r.one(2) {
		spec.BackoffLimitPerIndex = r.number(3)
		spec.BackoffLimit = ptr.To[int32](1 << 30)
		if r.one(2) {
			spec.MaxFailedIndexes = r.number(4)
		}
	}
	if r.one(4) {
		spec.SuccessPolicy = &batchv1.SuccessPolicy{}
		for range 1 + r.IntN(2) {
			rule := batchv1.SuccessPolicyRule{SucceededCount: ptr.To(1 + r.Int32N(4))}
			if r.one(2) {
				rule.SucceededIndexes = ptr.To([]string{"0", "1-3", "0,2,4-5"}[r.IntN(3)])
				if r.one(2) {
					rule.SucceededCount = nil
				}
			}
			spec.SuccessPolicy.Rules = append(spec.SuccessPolicy.Rules, rule)
		}
	}
}

func (r inventor) failurePolicy(spec *batchv1.JobSpec) {
	spec.PodFailurePolicy = &batchv1.PodFailurePolicy{}
	spec.PodReplacementPolicy = ptr.To(batchv1.Failed)
	actions := []batchv1.PodFailurePolicyAction{batchv1.PodFailurePolicyActionIgnore, batchv1.PodFailurePolicyActionCount, batchv1.PodFailurePolicyActionFailJob}
	if spec.BackoffLimitPerIndex != nil {
		actions = append(actions, batchv1.PodFailurePolicyActionFailIndex)
	}
	for range r.IntN(3) {
		rule := batchv1.PodFailurePolicyRule{Action: actions[r.IntN(len(actions))]}
		if r.one(2) {
			rule.OnPodConditions = []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue}}
		} else {
			rule.OnExitCodes = &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{1, 3}}
			if r.one(2) {
				rule.OnExitCodes.Operator = batchv1.PodFailurePolicyOnExitCodesOpNotIn
			}
			if r.one(2) {
				rule.OnExitCodes.ContainerName = ptr.To([]string{"c", "d"}[r.IntN(2)])
			}
		}
		spec.PodFailurePolicy.Rules = append(spec.PodFailurePolicy.Rules, rule)
	}
}

// pod is one of which nothing is the same as of another, so that there is one
// order only.
func (r inventor) pod(i int) *v1.Pod {
	name := fmt.Sprintf("pi-%d", i)
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", UID: types.UID("uid-" + name), Labels: map[string]string{"app": "pi"},
			CreationTimestamp: metav1.NewTime(now.Add(-time.Duration(100+i) * time.Second)),
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "batch/v1", Kind: "Job", Name: "pi", UID: "job", Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
			}},
			Finalizers: []string{batchv1.JobTrackingFinalizer},
		},
		Spec: v1.PodSpec{NodeName: "n"},
	}
	r.indexOf(p)
	p.Status.Phase = []v1.PodPhase{v1.PodPending, v1.PodRunning, v1.PodRunning, v1.PodSucceeded, v1.PodFailed}[r.IntN(5)]
	ended := metav1.NewTime(now.Add(-time.Duration(9*r.IntN(5)+i) * time.Second))
	r.statusOf(p, ended)
	r.marks(p, ended)
	return p
}

// indexOf gives a pod an index, or one that is none, and how often that failed.
func (r inventor) indexOf(p *v1.Pod) {
	p.Annotations = map[string]string{batchv1.JobCompletionIndexAnnotation: strconv.Itoa(r.IntN(8))}
	switch r.IntN(12) {
	case 0:
		p.Annotations = nil
	case 1:
		p.Annotations[batchv1.JobCompletionIndexAnnotation] = "x"
	}
	if r.one(2) && p.Annotations != nil {
		p.Annotations[batchv1.JobIndexFailureCountAnnotation] = strconv.Itoa(r.IntN(3))
		if r.one(3) {
			p.Annotations[batchv1.JobIndexIgnoredFailureCountAnnotation] = strconv.Itoa(r.IntN(3))
		}
	}
}

// statusOf makes up what the containers of a pod of its phase are like.
func (r inventor) statusOf(p *v1.Pod, ended metav1.Time) {
	switch p.Status.Phase {
	case v1.PodPending:
		if r.one(2) {
			p.Spec.NodeName = ""
		}
	case v1.PodRunning:
		p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "c", RestartCount: r.Int32N(2)}, {Name: "d"}}
		if r.one(2) {
			p.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: r.ago(60)}}
		}
		if r.one(4) {
			p.Status.ContainerStatuses[1].State.Terminated = &v1.ContainerStateTerminated{ExitCode: r.Int32N(4), FinishedAt: ended}
		}
	case v1.PodFailed, v1.PodSucceeded:
		for _, c := range []string{"c", "d"} {
			code := int32(0)
			if p.Status.Phase == v1.PodFailed {
				code = r.Int32N(5)
			}
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, v1.ContainerStatus{
				Name: c, State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code, FinishedAt: ended}},
			})
		}
	}
}

// marks may have a pod disrupted, deleted, counted, adopted or of another's labels.
func (r inventor) marks(p *v1.Pod, ended metav1.Time) {
	if r.one(4) {
		p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{Type: v1.DisruptionTarget, Status: v1.ConditionTrue})
	}
	if r.one(5) {
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = ptr.To(metav1.NewTime(ended.Add(30*time.Second))), ptr.To[int64](30)
	}
	switch r.IntN(10) {
	case 0: // it was counted
		p.Finalizers = []string{"x/y"}
		longAgo(p)
		if p.Status.Phase == v1.PodFailed && p.DeletionTimestamp == nil {
			p.Status.Phase = v1.PodSucceeded
		}
	case 1:
		if p.OwnerReferences = nil; p.DeletionTimestamp == nil {
			p.Finalizers = []string{"x/y"} // else upstream adopts it or takes it for an orphan, as it happens
		}
	case 2:
		p.Finalizers = append(p.Finalizers, "x/y")
	case 3:
		if r.one(3) {
			p.Labels = map[string]string{"app": "db"}
		}
	}
}

// longAgo lets a pod have ended before any that delays others: upstream keeps in
// mind what it counted, and not from one state to another.
func longAgo(p *v1.Pod) {
	for i := range p.Status.ContainerStatuses {
		if t := p.Status.ContainerStatuses[i].State.Terminated; t != nil {
			t.FinishedAt = metav1.NewTime(now.Add(-time.Hour))
		}
	}
}

func (r inventor) status(s *state) {
	spec, to := &s.job.Spec, &s.job.Status
	to.Failed, to.UncountedTerminatedPods = r.Int32N(2), &batchv1.UncountedTerminatedPods{}
	if to.Active, to.Terminating = 1, ptr.To[int32](0); !r.one(5) {
		to.StartTime, to.Ready = ptr.To(r.ago(60)), ptr.To[int32](0) // upstream writes no time alone
	}
	to.Succeeded = r.Int32N(3)
	if *spec.CompletionMode == batchv1.IndexedCompletion {
		to.CompletedIndexes = []string{"", "", "0", "2-3", "0,1,6-9"}[r.IntN(5)]
		to.Succeeded = int32(parseIndexes(to.CompletedIndexes, 10).total())
	}
	if spec.BackoffLimitPerIndex != nil {
		to.FailedIndexes = ptr.To([]string{"", "", "4", "1"}[r.IntN(4)])
	}
	condition := func(kind batchv1.JobConditionType, status v1.ConditionStatus, reason, message string) {
		to.Conditions = append(to.Conditions, batchv1.JobCondition{
			Type: kind, Status: status, Reason: reason, Message: message, LastProbeTime: r.ago(60), LastTransitionTime: r.ago(60),
		})
	}
	switch r.IntN(8) {
	case 0:
		condition(batchv1.JobSuspended, v1.ConditionTrue, "JobSuspended", "Job suspended")
	case 1:
		condition(batchv1.JobSuspended, v1.ConditionFalse, "JobResumed", "Job resumed")
	}
	switch r.IntN(20) {
	case 0:
		condition(batchv1.JobFailureTarget, v1.ConditionTrue, "DeadlineExceeded", "Job was active longer than specified deadline")
	case 1:
		condition(batchv1.JobSuccessCriteriaMet, v1.ConditionTrue, "SuccessPolicy", "Matched rules at index 0")
	}
	if !r.one(10) {
		return
	}
	u := to.UncountedTerminatedPods
	u.Failed = []types.UID{"gone"}
	for _, p := range s.pods {
		switch {
		case p.Status.Phase == v1.PodSucceeded && r.one(2) && *spec.CompletionMode != batchv1.IndexedCompletion:
			u.Succeeded = append(u.Succeeded, p.UID)
		case p.Status.Phase == v1.PodFailed && r.one(2):
			u.Failed = append(u.Failed, p.UID)
			longAgo(p)
		}
	}
	slices.Sort(u.Succeeded)
	slices.Sort(u.Failed)
}

// deeds are what was done about a state, in an order of their own.
type deeds struct {
	state *state
	list  []string
	// tracked are the pods that bear the finalizer in the end.
	tracked map[string]bool
}

func newDeeds(s *state) *deeds {
	d := &deeds{state: s}
	d.tracked = d.before()
	return d
}

func (d *deeds) before() map[string]bool {
	set := map[string]bool{}
	for _, p := range d.state.pods {
		if slices.Contains(p.Finalizers, batchv1.JobTrackingFinalizer) {
			set[p.Name] = true
		}
	}
	return set
}

func (d *deeds) note(format string, args ...any) {
	d.list = append(d.list, fmt.Sprintf(format, args...))
}

func (d *deeds) sorted() []string {
	was := d.before()
	for name := range maps.Keys(was) {
		if !d.tracked[name] {
			d.note("untrack %s", name)
		}
	}
	for name := range maps.Keys(d.tracked) {
		if d.tracked[name] && !was[name] {
			d.note("track %s", name)
		}
	}
	slices.Sort(d.list)
	return d.list
}

func (d *deeds) created(p *v1.Pod) {
	env := func(list []v1.Container) (out []string) {
		for _, c := range list {
			out = append(out, fmt.Sprintf("%s %v", c.Name, c.Env))
		}
		return out
	}
	spec, err := json.Marshal([]any{env(p.Spec.InitContainers), env(p.Spec.Containers)})
	if err != nil {
		panic(err)
	}
	d.note("create %s %v %v %v %s %s", p.GenerateName, p.Labels, p.Annotations, p.Finalizers, p.Spec.Hostname, spec)
}

func (d *deeds) event(kind, reason, message string) {
	if reason != "SuccessfulCreate" && reason != "SuccessfulDelete" {
		d.note("event %s %s %s", kind, reason, ofAny(message))
	}
}

// ofAny is a message without what is about the first of several pods, which
// upstream looks at in any order.
func ofAny(message string) string {
	if strings.Contains(message, " default/pi-") {
		return "a pod"
	}
	return message
}

// upstreams is what one round of upstream's controller does about a state.
func upstreams(t *testing.T, s *state) (did []string, status *batchv1.JobStatus) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		objects := []runtime.Object{s.job.DeepCopy()}
		for _, p := range s.pods {
			objects = append(objects, p.DeepCopy())
		}
		client := controllertest.Clientset(objects...)
		named := 0
		client.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
			p := a.(clienttesting.CreateAction).GetObject().(*v1.Pod)
			named++
			p.Name = fmt.Sprintf("%snew-%d", p.GenerateName, named)
			return false, nil, nil
		})
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logr.Discard()))
		factory := informers.NewSharedInformerFactory(client, 0)
		c, err := upstream.NewController(ctx, client, factory.Core().V1().Pods(), factory.Batch().V1().Jobs(), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		factory.Start(ctx.Done())
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.Run(ctx, 1)
		}()
		time.Sleep(900 * time.Millisecond) // the next round begins a second after the first
		synctest.Wait()
		cancel()
		<-done
		factory.Shutdown()
		did, status = actions(t, s, client.Actions())
	})
	return did, status
}

func actions(t *testing.T, s *state, list []clienttesting.Action) (did []string, status *batchv1.JobStatus) {
	t.Helper()
	d := newDeeds(s)
	for _, a := range list {
		switch a := a.(type) {
		case clienttesting.CreateAction: // an update is one too
			switch o := a.GetObject().(type) {
			case *v1.Pod:
				d.created(o)
			case *v1.Event:
				d.event(o.Type, o.Reason, o.Message)
			case *batchv1.Job:
				status = o.Status.DeepCopy()
			}
		case clienttesting.DeleteAction:
			d.note("delete %s", a.GetName())
		case clienttesting.PatchAction:
			d.patched(a.GetName(), string(a.GetPatch()))
		}
	}
	return d.sorted(), status
}

// patched tells of a patch of upstream's.
func (d *deeds) patched(name, patch string) {
	switch {
	case strings.Contains(patch, `"$patch":"delete"`):
		d.note("release %s", name)
		delete(d.tracked, name)
	case strings.Contains(patch, "ownerReferences"):
		d.note("adopt %s", name)
		d.tracked[name] = true
	case strings.Contains(patch, "$deleteFromPrimitiveList/finalizers"):
		delete(d.tracked, name)
	default:
		d.note("patch %s %s", name, patch)
	}
}

// fromTemplate is a pod of the job's template with patches, as the host makes it.
func fromTemplate(t *testing.T, job *batchv1.Job, patches []json.RawMessage) *v1.Pod {
	t.Helper()
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: job.Name + "-"}}
	template := job.Spec.Template.DeepCopy()
	p.Labels, p.Annotations, p.Spec = template.Labels, template.Annotations, template.Spec
	p.Spec.Containers, p.Spec.InitContainers = nil, nil
	if *job.Spec.CompletionMode != batchv1.IndexedCompletion {
		p.Spec = template.Spec
	}
	for _, patch := range patches {
		if err := json.Unmarshal(patch, p); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// guests is what the guest does about a state.
func guests(t *testing.T, s *state) (did []string, status *batchv1.JobStatus) {
	t.Helper()
	d := newDeeds(s)
	names := map[string]string{}
	var others []store.Object
	for _, p := range s.pods {
		names[string(p.UID)] = p.Name
		others = append(others, p)
	}
	out := controllertest.Ask(t, "Job", now, s.job, others...)
	for _, uid := range out.Adopt {
		d.note("adopt %s", names[uid])
	}
	for _, uid := range out.Release {
		d.note("release %s", names[uid])
	}
	for _, p := range out.Patch {
		if p.UID == string(s.job.UID) {
			continue // what upstream keeps in mind
		}
		var change struct{ Metadata struct{ Finalizers []string } }
		if err := json.Unmarshal(p.Patch, &change); err != nil {
			t.Fatal(err)
		}
		d.tracked[names[p.UID]] = slices.Contains(change.Metadata.Finalizers, batchv1.JobTrackingFinalizer)
	}
	for _, c := range out.Delete {
		d.note("delete %s", names[c.UID])
	}
	for _, c := range out.Create {
		for n := range c.Count {
			patches := []json.RawMessage{c.Object}
			if len(c.Each) > 0 {
				patches = append(patches, c.Each[n])
			}
			d.created(fromTemplate(t, s.job, patches))
		}
	}
	for _, e := range out.Events {
		d.event(e.Type, e.Reason, e.Message)
	}
	if len(out.Status) > 0 {
		got := controllertest.Status[batchv1.JobStatus](t, out)
		status = &got
	}
	return d.sorted(), status
}

// told is a status as it is stored.
func told(t *testing.T, status *batchv1.JobStatus) (as batchv1.JobStatus) {
	t.Helper()
	text, err := json.Marshal(status)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &as); err != nil {
		t.Fatal(err)
	}
	for i := range as.Conditions {
		as.Conditions[i].Message = ofAny(as.Conditions[i].Message)
	}
	if as.UncountedTerminatedPods == nil {
		as.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
	}
	slices.Sort(as.UncountedTerminatedPods.Failed)
	slices.Sort(as.UncountedTerminatedPods.Succeeded)
	return as
}

// More are compared with `go test -run Upstream -states 20000`.
var states = flag.Uint64("states", controllertest.Rounds(300, 20_000), "how many invented states are compared with upstream")

func TestTheGuestDoesWhatUpstreamDoes(t *testing.T) {
	t.Parallel()
	for seed := range *states {
		s := inventor{rand.New(rand.NewPCG(seed, 1))}.state()
		wantDid, wantStatus := upstreams(t, s)
		did, status := guests(t, s)
		if wantStatus == nil {
			wantStatus = &s.job.Status
		}
		if status == nil {
			status = &s.job.Status
		}
		if diff := cmp.Diff(wantDid, did); diff != "" {
			t.Errorf("seed %d: deeds (-upstream +guest):\n%s", seed, diff)
		}
		if diff := cmp.Diff(told(t, wantStatus), told(t, status)); diff != "" {
			t.Errorf("seed %d: status (-upstream +guest):\n%s", seed, diff)
		}
		if t.Failed() {
			text, err := json.MarshalIndent(map[string]any{"spec": s.job.Spec, "status": s.job.Status, "deleted": s.job.DeletionTimestamp, "pods": s.pods}, "", " ")
			if err != nil {
				t.Fatal(err)
			}
			t.Fatalf("seed %d is of %s", seed, text)
		}
	}
}
