package controllers

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/api/kind"
	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/controller"
	"github.com/berth-dev/berth/host/controller/controllertest"
	"github.com/berth-dev/berth/host/policy/build"
	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/engine/enginetest"
	"github.com/berth-dev/berth/host/policy/vet"
	"github.com/berth-dev/berth/host/policy/wire"
	"github.com/berth-dev/berth/host/store"
	"github.com/berth-dev/berth/host/store/storetest"
)

func TestMain(m *testing.M) {
	engine.ChildProgram = enginetest.Compiler()
	os.Exit(m.Run())
}

// guest is a built-in controller as wasm.
type guest struct {
	entry *abi.Policy
	in    *engine.Instance
	enc   *wire.Encoder
	slots int
}

func (g *guest) Seeded() bool { return g.entry.Seed }

func (g *guest) Name() string               { return g.entry.Name }
func (g *guest) Parent() abi.ObjectKind     { return *g.entry.Parent }
func (g *guest) Children() []abi.ObjectKind { return g.entry.Children }
func (g *guest) Related() []abi.ObjectKind  { return g.entry.Related }

func (g *guest) Reconcile(context.Context, *wire.ReconcileInput) (*abi.ReconcileResult, error) {
	panic("not driven")
}

func compiled(tb testing.TB) *engine.Module {
	tb.Helper()
	with, err := build.Find()
	if err != nil {
		tb.Fatal(err)
	}
	wasm, err := with.Module(tb.Context(), "../modules/controllers", false)
	if err != nil {
		tb.Fatal(err)
	}
	e, err := engine.New(tb.Context(), engine.Config{CacheDir: enginetest.Cache()})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { e.Close() })
	m, err := e.Load(tb.Context(), wasm, vet.Limits{})
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

func open(tb testing.TB, m *engine.Module, name string) *guest {
	tb.Helper()
	manifest, err := abi.ReadManifest(m.Manifest())
	if err != nil {
		tb.Fatal(err)
	}
	in, err := m.Open(tb.Context(), engine.OpenConfig{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(in.Close)
	g := &guest{entry: manifest.Find(name), in: in, enc: wire.NewEncoder()}
	config, _ := json.Marshal(map[string]string{"policy": name})
	if _, err := in.Call(engine.FuncOpen, config, engine.OpenBudget); err != nil {
		tb.Fatal(err)
	}
	return g
}

// ask asks once, and says what part of its budget the answer took.
func (g *guest) ask(in *wire.ReconcileInput) (fuel engine.Fuel, share float64, took time.Duration, err error) {
	data := g.enc.Reconcile(in)
	objects := engine.Reconciled(1 + len(in.Children) + len(in.Related))
	g.slots = max(g.slots, engine.SlotsOf(objects))
	budget := engine.AskBudget(objects, g.slots, len(data), g.in.MemoryBytes())
	r, err := g.in.Call(engine.FuncReconcile, data, budget)
	if err != nil {
		return r.Fuel, 0, r.Took, err
	}
	if r.Status != abi.StatusOK {
		return r.Fuel, 0, r.Took, fmt.Errorf("status %d: %s", r.Status, r.Out)
	}
	_, err = abi.ReadReconcileResult(r.Out)
	return r.Fuel, float64(r.Fuel) / float64(budget), r.Took, err
}

var labels = map[string]string{"app": "web"}

func template() v1.PodTemplateSpec {
	return v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: v1.PodSpec{Containers: []v1.Container{{
		Name: "c", Image: "nginx", Ports: []v1.ContainerPort{{Name: "http", ContainerPort: 80, Protocol: v1.ProtocolTCP}},
	}}}}
}

// large is a parent with n pods, all Running and Ready.
func large(kindName string, n int) (parent store.Object, others []store.Object) {
	meta := metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "parent", Generation: 1}
	owner := "ReplicaSet"
	selector := &metav1.LabelSelector{MatchLabels: labels}
	switch kindName {
	case "Service":
		parent = &v1.Service{ObjectMeta: meta, Spec: v1.ServiceSpec{
			Selector: labels, ClusterIP: "10.96.0.10", ClusterIPs: []string{"10.96.0.10"}, IPFamilies: []v1.IPFamily{v1.IPv4Protocol},
			Ports: []v1.ServicePort{{Name: "http", Port: 80, Protocol: v1.ProtocolTCP}},
		}}
		others = append(others, endpointSlices(n)...)
	case "StatefulSet":
		owner = "StatefulSet"
		parent = &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{
			Replicas: ptr.To(int32(n)), Selector: selector, Template: template(), PodManagementPolicy: appsv1.ParallelPodManagement,
			RevisionHistoryLimit: ptr.To[int32](10), UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType},
		}}
	case "DaemonSet":
		owner = "DaemonSet"
		parent = &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{
			Selector: selector, Template: template(), RevisionHistoryLimit: ptr.To[int32](10),
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.RollingUpdateDaemonSetStrategyType, RollingUpdate: &appsv1.RollingUpdateDaemonSet{}},
		}}
		for i := range n {
			others = append(others, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", i), UID: types.UID(fmt.Sprint("node-uid-", i)), Labels: map[string]string{"kubernetes.io/hostname": fmt.Sprint("node-", i)}}})
		}
	case "Job":
		owner = "Job"
		parent = &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{
			Parallelism: ptr.To(int32(n)), Completions: ptr.To(int32(n)), CompletionMode: ptr.To(batchv1.IndexedCompletion),
			BackoffLimit: ptr.To[int32](6), Selector: selector, Template: template(),
		}}
	case "HorizontalPodAutoscaler":
		parent = autoscaler(meta)
		meta.UID = "set"
		others = append(others, &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Replicas: ptr.To(int32(n)), Selector: selector, Template: template()}})
	case "CronJob":
		return cronJob(meta, n)
	case "ReplicaSet":
		parent = &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Replicas: ptr.To(int32(n)), Selector: selector, Template: template()}}
	}
	now := metav1.NewTime(time.Unix(1_800_000_000, 0))
	for i := range n {
		p := &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("web-%d", i), Namespace: "default", UID: types.UID(fmt.Sprintf("3c1d4e5f-0000-4000-8000-%012d", i)), Labels: labels, CreationTimestamp: now},
			Spec:       template().Spec,
			Status: v1.PodStatus{
				Phase: v1.PodRunning, PodIP: fmt.Sprintf("10.0.%d.%d", i/250, i%250+1), PodIPs: []v1.PodIP{{IP: fmt.Sprintf("10.0.%d.%d", i/250, i%250+1)}},
				Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: now}},
			},
		}
		p.Spec.NodeName = fmt.Sprint("node-", i)
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: owner, Name: "web", UID: "parent", Controller: ptr.To(true)}}
		if kindName == "StatefulSet" {
			p.Labels = map[string]string{"app": "web", "statefulset.kubernetes.io/pod-name": p.Name, "apps.kubernetes.io/pod-index": fmt.Sprint(i)}
			p.Spec.Hostname = p.Name
		}
		if kindName == "Job" { // that have all ended, and none is counted
			p.Annotations = map[string]string{batchv1.JobCompletionIndexAnnotation: fmt.Sprint(i)}
			p.Finalizers, p.Status.Phase = []string{batchv1.JobTrackingFinalizer}, v1.PodSucceeded
			p.OwnerReferences[0].APIVersion = "batch/v1"
		}
		others = append(others, p)
	}
	return parent, others
}

// autoscaler looks at the CPU and the memory of the pods.
func autoscaler(meta metav1.ObjectMeta) *autoscalingv2.HorizontalPodAutoscaler {
	h := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: meta, Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web"}, MaxReplicas: 20_000,
	}}
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		goal := autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: ptr.To(resource.MustParse("100m"))}
		h.Spec.Metrics = append(h.Spec.Metrics, autoscalingv2.MetricSpec{
			Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{Name: name, Target: goal},
		})
	}
	return h
}

// cronJob was not looked at for years, in a zone with summer time, and its Jobs
// are still there.
func cronJob(meta metav1.ObjectMeta, n int) (parent store.Object, others []store.Object) {
	meta.CreationTimestamp = metav1.NewTime(time.Unix(1_600_000_000, 0))
	parent = &batchv1.CronJob{ObjectMeta: meta, Spec: batchv1.CronJobSpec{Schedule: "* * * 12 1", TimeZone: ptr.To("Europe/Berlin")}}
	for i := range n {
		job := metav1.ObjectMeta{Name: fmt.Sprint("web-", i), Namespace: "default", UID: types.UID(fmt.Sprint("job-", i))}
		job.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "CronJob", Name: "web", UID: "parent", Controller: ptr.To(true)}}
		others = append(others, &batchv1.Job{ObjectMeta: job, Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: v1.ConditionTrue}}}})
	}
	return parent, others
}

// used is what each pod uses.
func used(*v1.Pod) *controller.Usage {
	list := v1.ResourceList{v1.ResourceCPU: resource.MustParse("120m"), v1.ResourceMemory: resource.MustParse("64Mi")}
	return &controller.Usage{Time: time.Unix(1_800_000_990, 0), Window: 15 * time.Second, Containers: map[string]v1.ResourceList{"c": list}}
}

// endpointSlices are a Service's, as many as n endpoints take.
func endpointSlices(n int) (all []store.Object) {
	for from := 0; from < n; from += 100 {
		s := &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Name: fmt.Sprint("web-", from), Namespace: "default", UID: types.UID(fmt.Sprint("slice-", from)), Labels: map[string]string{"kubernetes.io/service-name": "web", "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}},
			AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To[int32](80), Protocol: ptr.To(v1.ProtocolTCP)}},
		}
		s.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: "web", UID: "parent", Controller: ptr.To(true)}}
		for i := from; i < min(from+100, n); i++ {
			s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
				Addresses: []string{fmt.Sprintf("10.0.%d.%d", i/250, i%250+1)}, NodeName: ptr.To(fmt.Sprint("node-", i)),
				Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true), Serving: ptr.To(true), Terminating: ptr.To(false)},
				TargetRef:  &v1.ObjectReference{Kind: "Pod", Namespace: "default", Name: fmt.Sprintf("web-%d", i), UID: types.UID(fmt.Sprintf("3c1d4e5f-0000-4000-8000-%012d", i))},
			})
		}
		all = append(all, s)
	}
	return all
}

// input is what a guest is told of a large parent.
func input(tb testing.TB, g *guest, n int) *wire.ReconcileInput {
	tb.Helper()
	parent, others := large(g.entry.Parent.Kind, n)
	return inputOf(tb, g, parent, others)
}

func inputOf(tb testing.TB, g *guest, parent store.Object, others []store.Object) *wire.ReconcileInput {
	tb.Helper()
	s := storetest.OpenEngine(tb, store.NewMemory(), store.Options{Indexes: controller.Indexes(registry.Indexes())})
	ops := []store.Op{}
	for _, o := range append(others, parent) {
		k, _ := kind.Of(o)
		ops = append(ops, store.Op{Kind: store.Create, Key: k.Key(o.GetNamespace(), o.GetName()), Object: o})
	}
	for some := range slices.Chunk(ops, 500) {
		if _, _, err := s.Commit(tb.Context(), some...); err != nil {
			tb.Fatal(err)
		}
	}
	d, err := controller.New(controller.Config{Guest: g, Objects: s, Types: controllertest.Types, Usage: used, Now: func() time.Time { return time.Unix(1_800_001_000, 0) }})
	if err != nil {
		tb.Fatal(err)
	}
	k, _ := kind.Of(parent)
	parent, _ = s.Get(k.Key(parent.GetNamespace(), parent.GetName()))
	in, err := d.Input(parent)
	if err != nil {
		tb.Fatal(err)
	}
	return in
}

// As many children as one parent may have fit the budget of a call, to a guest
// that was opened just now and to one that was asked before, with room to spare.
func TestTenThousandChildrenFitACall(t *testing.T) {
	m := compiled(t)
	for name, n := range map[string]int{
		"ReplicaSet": 10_000, "EndpointSlice": 10_000, "Endpoints": 10_000, "StatefulSet": 5_000, "DaemonSet": 5_000, "Job": 10_000,
		"HorizontalPodAutoscaler": 10_000, "CronJob": 1_000,
	} {
		t.Run(name, func(t *testing.T) {
			g := open(t, m, name)
			for i := range 4 {
				count := []int{n, n / 10, n, n}[i]
				in := input(t, g, count)
				fuel, share, took, err := g.ask(in)
				if err != nil {
					t.Fatalf("ask %d about %d: %v", i, count, err)
				}
				t.Logf("about %d: %d fuel each, %.0f%% of its budget, %v, %d MiB", count, int(fuel)/count, 100*share, took, g.in.MemoryBytes()>>20)
				if share > 0.9 {
					t.Errorf("about %d it takes %.0f %% of its budget", count, 100*share)
				}
			}
		})
	}
}

// As many replicas as a cluster of thousands of nodes can have fit one question, and
// the guest's memory.
func TestAllReplicasOfALargeClusterFitACall(t *testing.T) {
	const n = 65_000
	g := open(t, compiled(t), "ReplicaSet") // such a question gets an instance of its own
	fuel, share, took, err := g.ask(input(t, g, n))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("about %d: %d fuel each, %.0f%% of its budget, %v, %d MiB", n, int(fuel)/n, 100*share, took, g.in.MemoryBytes()>>20)
	if share > 0.9 {
		t.Errorf("it takes %.0f %% of its budget", 100*share)
	}
}

// A parent that is new, and wants as many, is asked about on the budget of one
// that has no children yet.
func TestTenThousandMissingChildrenFitACall(t *testing.T) {
	m := compiled(t)
	for name, n := range map[string]int{"ReplicaSet": 10_000, "StatefulSet": 10_000, "DaemonSet": 5_000, "Job": 10_000} {
		t.Run(name, func(t *testing.T) {
			g := open(t, m, name)
			for _, have := range []int{0, 1, 100} {
				parent, others := large(g.entry.Parent.Kind, n)
				pods := 0
				others = slices.DeleteFunc(others, func(o store.Object) bool {
					if _, is := o.(*v1.Pod); is {
						pods++
					}
					return pods > have
				})
				fuel, share, took, err := g.ask(inputOf(t, g, parent, others))
				if err != nil {
					t.Fatalf("with %d of %d: %v", have, n, err)
				}
				t.Logf("with %d of %d: %d fuel, %.0f%% of its budget, %v, %d MiB", have, n, fuel, 100*share, took, g.in.MemoryBytes()>>20)
				if share > 0.9 {
					t.Errorf("with %d of %d it takes %.0f %% of its budget", have, n, 100*share)
				}
			}
		})
	}
}
