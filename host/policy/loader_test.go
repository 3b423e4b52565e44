package policy_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/berth-dev/berth/host/policy"
	"github.com/berth-dev/berth/host/policy/builtin"
	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/engine/enginetest"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/polltest"
	"github.com/berth-dev/berth/host/schedule/cycle"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/policytest"
	"github.com/berth-dev/berth/host/schedule/snapshot"
	"github.com/berth-dev/berth/host/store"
	"github.com/berth-dev/berth/host/store/storetest"
)

func TestMain(m *testing.M) {
	engine.ChildProgram = enginetest.Compiler()
	if err := v1alpha1.AddToScheme(scheme.Scheme); err != nil {
		panic(err)
	}
	code := m.Run()
	if e, err := sharedEngine(); err == nil {
		_ = e.Close()
	}
	os.Exit(code)
}

// rig is a loader with the built-in policies over a store in memory.
type rig struct {
	*policy.Loader
	store   *store.Store
	reasons *framework.Reasons
	cluster *snapshot.Cluster
	decider *cycle.Decider
}

// sharedEngine compiles the built-in policies once for all tests.
var sharedEngine = sync.OnceValues(func() (*engine.Engine, error) {
	return engine.New(context.Background(), engine.Config{CacheDir: enginetest.Cache()})
})

func newRig(t testing.TB, opts ...store.Options) *rig {
	t.Helper()
	e, err := sharedEngine()
	if err != nil {
		t.Fatal(err)
	}
	return newRigOn(t, e, opts...)
}

func newRigOn(t testing.TB, e *engine.Engine, opts ...store.Options) *rig {
	t.Helper()
	r := &rig{store: storetest.Open(t, opts...), reasons: framework.NewReasons(0), cluster: snapshot.New(0)}
	r.decider = cycle.New(cycle.Options{Reasons: r.reasons})
	r.Loader = policy.NewLoader(policy.Config{
		Objects: r.store, Engine: e, Reasons: r.reasons, Now: time.Now, Log: slog.New(slog.DiscardHandler),
	})
	if err := builtin.Install(t.Context(), r.Loader); err != nil {
		t.Fatal(err)
	}
	r.Load(t.Context())
	return r
}

func (r *rig) policy(t testing.TB, name string) *v1alpha1.Policy {
	t.Helper()
	o, ok := r.store.Get(store.Key{Resource: v1alpha1.Policies, Name: name})
	if !ok {
		t.Fatalf("no policy %s", name)
	}
	return o.(*v1alpha1.Policy)
}

// decide places a pod by the default profile and returns the node, or why not.
func (r *rig) decide(t testing.TB, pod *v1.Pod) string {
	t.Helper()
	p := snapshot.NewPod(pod)
	set := r.Scheduling()
	got := r.decider.Decide(context.Background(), cycle.Input{Set: set, Profile: set.For(p), Log: r.cluster, Pod: p, Seed: 1})
	r.decider.Compare(context.Background(), got.Slot)
	r.decider.End()
	if got.Slot < 0 {
		return fmt.Sprintf("%+v", got)
	}
	name := r.cluster.Row(got.Slot).Node.Name
	r.cluster.Place(p, name)
	return name
}

func TestBuiltInPoliciesAreLive(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	list, err := r.store.List(v1alpha1.Policies, "", store.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range list.Items {
		p := o.(*v1alpha1.Policy)
		if p.Status.Phase != v1alpha1.PhaseLive || p.Status.Live == "" || p.Status.Kind == "" {
			t.Errorf("policy %s is %q: %s", p.Name, p.Status.Phase, p.Status.Message)
		}
	}
	for _, want := range []string{"PodFitsResources", "HostName", "MatchNodeSelector", "PodToleratesNodeTaints", "PodFitsHostPorts", "LeastRequestedPriority", "BalancedResourceAllocation"} {
		r.policy(t, want)
	}
}

func TestBuiltInPoliciesDecide(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.cluster.UpsertNode(policytest.Node("small", "1", "1Gi", 10, nil))
	r.cluster.UpsertNode(policytest.Node("large", "16", "64Gi", 10, nil))
	if got := r.decide(t, policytest.Pod("big", "4", "8Gi", nil)); got != "large" {
		t.Errorf("a pod that only fits one node went to %s", got)
	}
	picky := policytest.Pod("picky", "100m", "64Mi", func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} })
	if got := r.decide(t, picky); !strings.Contains(got, "Slot:-1") {
		t.Errorf("a pod whose selector no node meets went to %s", got)
	}
	r.cluster.UpsertNode(policytest.Node("ssd", "1", "1Gi", 10, func(n *v1.Node) { n.Labels["disk"] = "ssd" }))
	if got := r.decide(t, picky); got != "ssd" {
		t.Errorf("a pod with a selector went to %s", got)
	}
}

func TestAModuleThatIsNotThereLeavesTheLiveOne(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	before := r.policy(t, "PodFitsResources")
	change := before.DeepCopy()
	change.Spec.Module = "sha256-" + strings.Repeat("0", 64)
	change.Generation++
	if _, _, err := r.store.Commit(t.Context(), store.Op{Kind: store.Update, Key: store.Key{Resource: v1alpha1.Policies, Name: change.Name}, Object: change}); err != nil {
		t.Fatal(err)
	}
	r.Load(t.Context())
	after := r.policy(t, "PodFitsResources")
	if after.Status.Phase != v1alpha1.PhaseRefused || !strings.Contains(after.Status.Message, "upload it first") {
		t.Errorf("status = %s: %s", after.Status.Phase, after.Status.Message)
	}
	if after.Status.Live != before.Status.Live {
		t.Errorf("live = %s, want the previous %s", after.Status.Live, before.Status.Live)
	}
	r.cluster.UpsertNode(policytest.Node("small", "1", "1Gi", 10, nil))
	if got := r.decide(t, policytest.Pod("big", "4", "8Gi", nil)); !strings.Contains(got, "Slot:-1") {
		t.Errorf("the previous policy does not decide: the pod went to %s", got)
	}
}

// TestRefusalsLeaveNoGarbage asks again and again about a pod that all nodes
// refuse: a guest that leaves garbage for each runs out of its budget.
func TestAHostThatEndsRefusesNothing(t *testing.T) {
	t.Parallel()
	r, _, disk := examining(t)
	name := r.upload(t, guest{Name: "made", Version: "1"}.Bytes())
	r.ForgetReady()
	r.write(t, "made", func(s *v1alpha1.PolicySpec) { s.Module = name })
	ctx, end := context.WithCancel(t.Context())
	disk.fails = func() error {
		end()
		return ctx.Err()
	}
	r.Load(ctx)
	disk.fails = nil
	r.Load(ctx) // as Run may, which is told of news and of its end at once
	if is := r.policy(t, "made").Status; is.Phase != "" {
		t.Errorf("when the host ends the policy is %s: %s", is.Phase, is.Message)
	}
	r.Load(t.Context())
	if is := r.policy(t, "made").Status; is.Phase != v1alpha1.PhaseLive {
		t.Errorf("then the policy is %s: %s", is.Phase, is.Message)
	}
}

// TestWhatTheHostCouldNotLoadIsTriedAgain has a disk that cannot be read for a while.
func TestWhatTheHostCouldNotLoadIsTriedAgain(t *testing.T) {
	t.Parallel()
	r, _, disk := examining(t)
	var passed atomic.Int64
	r.Now = func() time.Time { return time.Now().Add(time.Duration(passed.Load())) }
	name := r.upload(t, guest{Name: "made", Version: "1"}.Bytes())
	r.ForgetReady()
	disk.fails = func() error { return syscall.EIO }
	if is := r.put(t, "made", func(s *v1alpha1.PolicySpec) { s.Module = name }).Status; is.Phase != v1alpha1.PhaseRefused {
		t.Fatalf("without its bytes the policy is %s", is.Phase)
	}
	disk.fails = nil
	r.Load(t.Context())
	if is := r.policy(t, "made").Status; is.Phase != v1alpha1.PhaseRefused {
		t.Errorf("at once the policy is %s, want a pause", is.Phase)
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	passed.Store(int64(time.Minute))
	polltest.Until(t, "the policy is live", func() bool { return r.policy(t, "made").Status.Phase == v1alpha1.PhaseLive })
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// outage is a store that cannot be written for a while.
type outage struct {
	*store.Store
	down    atomic.Bool
	refused chan store.Key
}

func (o *outage) Update(ctx context.Context, k store.Key, change func(store.Object) (store.Object, error)) (store.Object, error) {
	if !o.down.Load() {
		return o.Store.Update(ctx, k, change)
	}
	select {
	case o.refused <- k:
	default:
	}
	return nil, syscall.ENOSPC
}

func TestAStatusThatCouldNotBeWrittenIsWrittenLater(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	name := r.upload(t, guest{Name: "made", Version: "1"}.Bytes())
	r.join(t, "made", "predicate")
	if says := r.profileSays(t); says == "" {
		t.Fatal("the profile says nothing of a policy that is not there")
	}
	disk := &outage{Store: r.store, refused: make(chan store.Key, 100)}
	config := r.Config
	config.Objects = disk
	r.Loader = policy.NewLoader(config)
	r.Load(t.Context())
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	disk.down.Store(true)
	r.write(t, "made", func(s *v1alpha1.PolicySpec) { s.Module = name })
	for key := range disk.refused {
		if key.Resource == v1alpha1.Profiles { // which comes last
			break
		}
	}
	disk.down.Store(false)
	polltest.Until(t, "the statuses are written", func() bool {
		return r.policy(t, "made").Status.Phase == v1alpha1.PhaseLive && r.profileSays(t) == ""
	})
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestRefusalsLeaveNoGarbage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, n := range policytest.Nodes(5000) {
		r.cluster.UpsertNode(n)
	}
	pod := snapshot.NewPod(policytest.Pod("large", "1000", "200Mi", nil))
	for range 60 {
		if _, err := cycle.Judge(t.Context(), r.Scheduling().For(pod), r.reasons, r.cluster, pod, 1); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range r.Figures() {
		if f.Failures != 0 {
			t.Errorf("policy %s failed %d times in %d calls: %s", f.Name, f.Failures, f.Calls, f.LastFailure)
		}
	}
}

// TestAVeryLargeClusterCanBeTold tells all built-in policies of a cluster whose
// tables need many collections of garbage while they are made.
func TestAVeryLargeClusterCanBeTold(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, n := range policytest.Nodes(20_000) {
		r.cluster.UpsertNode(n)
	}
	if got := r.decide(t, policytest.Pod("pod", "100m", "200Mi", nil)); strings.Contains(got, "Slot:-1") {
		t.Fatal(got)
	}
	for _, f := range r.Figures() {
		if f.Failures != 0 {
			t.Errorf("policy %s failed %d times in %d calls: %s", f.Name, f.Failures, f.Calls, f.LastFailure)
		}
	}
}

// Not in parallel: what other tests open would count.
func TestCloseGivesAllMemoryBack(t *testing.T) {
	before := engine.GuestBytes()
	r := newRig(t)
	r.cluster.UpsertNode(policytest.Node("large", "16", "64Gi", 10, nil))
	if got := r.decide(t, policytest.Pod("big", "4", "8Gi", nil)); got != "large" {
		t.Fatalf("the pod went to %s", got)
	}
	if open := engine.GuestBytes() - before; open < 1<<20 {
		t.Errorf("guests that decide have %d bytes of memory", open)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if left := engine.GuestBytes() - before; left != 0 {
		t.Errorf("after Close, guests have %d bytes of memory, want 0", left)
	}
}

// BenchmarkDecide is a decision by the whole default profile in sandboxes,
// with its reservation, for replicas of one class.
func BenchmarkDecide(b *testing.B) {
	for _, nodes := range []int{100, 1000, 5000} {
		b.Run(fmt.Sprintf("one class, %d nodes", nodes), func(b *testing.B) {
			r := newRig(b)
			for _, n := range policytest.Nodes(nodes) {
				r.cluster.UpsertNode(n)
			}
			pods := make([]*v1.Pod, b.N)
			for i := range pods {
				pods[i] = policytest.Pod(fmt.Sprint(i), "100m", "200Mi", nil)
			}
			b.ResetTimer()
			for i, pod := range pods {
				r.decide(b, pod)
				if i >= nodes {
					r.cluster.Remove(pods[i-nodes].UID)
				}
			}
		})
	}
}

// TestALargeClusterIsWithinBudgets asks all built-in policies about pods with
// every kind of term, over as many nodes as the benchmarks have.
func TestALargeClusterIsWithinBudgets(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i, n := range policytest.Nodes(5000) {
		n.Labels[v1.LabelTopologyZone] = fmt.Sprintf("zone-%d", i%3)
		n.Labels[v1.LabelHostname] = n.Name
		r.cluster.UpsertNode(n)
	}
	labels := map[string]string{"color": "blue"}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	term := func(key string) v1.PodAffinityTerm {
		return v1.PodAffinityTerm{LabelSelector: selector, TopologyKey: key}
	}
	shapes := map[string]func(*v1.Pod){
		"plain": func(*v1.Pod) {},
		"apart": func(p *v1.Pod) {
			p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{term(v1.LabelHostname)},
			}}
		},
		"together": func(p *v1.Pod) {
			p.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1.WeightedPodAffinityTerm{
				{Weight: 1, PodAffinityTerm: term(v1.LabelHostname)},
			}}}
		},
		"spread": func(p *v1.Pod) {
			for _, how := range []v1.UnsatisfiableConstraintAction{v1.DoNotSchedule, v1.ScheduleAnyway} {
				p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, v1.TopologySpreadConstraint{
					MaxSkew: 5, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: how, LabelSelector: selector,
				})
			}
		},
	}
	for name, shape := range shapes {
		for i := range 100 {
			pod := policytest.Pod(fmt.Sprintf("%s-%d", name, i), "100m", "200Mi", func(p *v1.Pod) { p.Labels = labels; shape(p) })
			if got := r.decide(t, pod); strings.Contains(got, "Slot:-1") {
				t.Fatalf("%s: %s", pod.Name, got)
			}
		}
	}
	for _, f := range r.Figures() {
		if f.Failures != 0 {
			t.Errorf("policy %s failed %d times in %d calls", f.Name, f.Failures, f.Calls)
		}
	}
}
