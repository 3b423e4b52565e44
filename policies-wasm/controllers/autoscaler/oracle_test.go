package autoscaler

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	scalefake "k8s.io/client-go/scale/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	defaults "k8s.io/kubernetes/pkg/apis/autoscaling/v2"
	upstream "k8s.io/kubernetes/pkg/controller/podautoscaler"
	"k8s.io/kubernetes/pkg/controller/podautoscaler/metrics"
	"k8s.io/utils/ptr"

	host "github.com/berth-dev/berth/host/controller"
	"github.com/berth-dev/berth/host/controller/controllertest"
	"github.com/berth-dev/berth/host/store"
)

// More are compared with `go test -run Upstream -plays 3000`.
var plays = flag.Uint64("plays", controllertest.Rounds(40, 1_700), "how many invented plays, of twelve looks each, are compared with upstream")

// theirs is upstream's controller with fake clients.
type theirs struct {
	client   *fake.Clientset
	mu       sync.Mutex
	replicas int32
	events   []string
	usage    map[string]*host.Usage
	adapters adapters
}

func newTheirs(ctx context.Context, t *testing.T, h *autoscalingv2.HorizontalPodAutoscaler, replicas int32, pods []*v1.Pod) *theirs {
	t.Helper()
	objects := []runtime.Object{h.DeepCopy()}
	for _, p := range pods {
		objects = append(objects, p.DeepCopy())
	}
	u := &theirs{client: controllertest.Clientset(objects...), replicas: replicas, usage: map[string]*host.Usage{}}
	u.client.PrependReactor("create", "events", func(action clienttesting.Action) (bool, runtime.Object, error) {
		u.mu.Lock()
		defer u.mu.Unlock()
		e := action.(clienttesting.CreateAction).GetObject().(*v1.Event)
		u.events = append(u.events, e.Type+" "+e.Reason+": "+e.Message)
		return false, nil, nil
	})
	scales := &scalefake.FakeScaleClient{}
	scales.AddReactor("*", "replicasets", u.scale)
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{appsv1.SchemeGroupVersion})
	mapper.Add(appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), meta.RESTScopeNamespace)
	factory := informers.NewSharedInformerFactory(u.client, 0)
	c := upstream.NewHorizontalController(ctx, u.client.CoreV1(), scales, u.client.AutoscalingV2(), mapper, u,
		factory.Autoscaling().V2().HorizontalPodAutoscalers(), factory.Core().V1().Pods(), 15*time.Second, 5*time.Minute, tolerance, 5*time.Minute, 30*time.Second)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	go c.Run(ctx, 1)
	return u
}

// scale answers for the scale of the target.
func (u *theirs) scale(action clienttesting.Action) (bool, runtime.Object, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if update, ok := action.(clienttesting.UpdateAction); ok {
		u.replicas = update.GetObject().(*autoscalingv1.Scale).Spec.Replicas
	}
	return true, &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"}, Spec: autoscalingv1.ScaleSpec{Replicas: u.replicas},
		Status: autoscalingv1.ScaleStatus{Replicas: u.replicas, Selector: "app=web"},
	}, nil
}

// GetResourceMetric implements metrics.MetricsClient as that of metrics.k8s.io does.
func (u *theirs) GetResourceMetric(_ context.Context, name v1.ResourceName, _ string, _ labels.Selector, container string) (metrics.PodMetricsInfo, time.Time, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.usage) == 0 {
		return nil, time.Time{}, errors.New("no metrics returned from resource metrics API")
	}
	info := metrics.PodMetricsInfo{}
	for pod, used := range u.usage {
		total, missing := int64(0), true
		for c, list := range used.Containers {
			if q, ok := list[name]; ok && (container == "" || c == container) {
				total, missing = total+q.MilliValue(), false
			}
		}
		if !missing {
			info[pod] = metrics.PodMetric{Timestamp: used.Time, Window: used.Window, Value: total}
		}
	}
	return info, time.Time{}, nil
}

// state is what users see after a look, and what they were told since the play
// began.
type state struct {
	Replicas                   int32
	Status, Conditions, Events []string
}

// asServed writes metrics as an API server does, which read them before.
func asServed(metrics []autoscalingv2.MetricStatus) string {
	var read []autoscalingv2.MetricStatus
	text, err := json.Marshal(metrics)
	if err == nil {
		err = json.Unmarshal(text, &read)
	}
	if err == nil {
		text, err = json.Marshal(read)
	}
	if err != nil {
		panic(err)
	}
	return string(text)
}

// whichPod is the one of several that upstream names, in no order.
var whichPod = regexp.MustCompile(`Pod web-\d+`)

func stateOf(replicas int32, s *autoscalingv2.HorizontalPodAutoscalerStatus, events []string) state {
	out := state{Replicas: replicas}
	for _, e := range events {
		out.Events = append(out.Events, whichPod.ReplaceAllString(e, "Pod"))
	}
	slices.Sort(out.Events)
	out.Events = slices.Compact(out.Events)
	text := asServed(s.CurrentMetrics)
	out.Status = []string{fmt.Sprint(s.CurrentReplicas, s.DesiredReplicas), text}
	if s.LastScaleTime != nil {
		out.Status = append(out.Status, s.LastScaleTime.UTC().Format(time.RFC3339))
	}
	for _, c := range s.Conditions {
		out.Conditions = append(out.Conditions, fmt.Sprint(c.Type, c.Status, c.Reason, whichPod.ReplaceAllString(c.Message, "Pod"), c.LastTransitionTime.UTC().Format(time.RFC3339)))
	}
	return out
}

// invented is an autoscaler of any kind.
func invented(r *rand.Rand) *autoscalingv2.HorizontalPodAutoscaler {
	one := func(n int) bool { return r.IntN(n) == 0 }
	h := scaler(1+r.Int32N(3), 4+r.Int32N(30))
	h.UID, h.Generation, h.Spec.Metrics = "hpa", 1, nil
	for range 1 + r.IntN(2)*r.IntN(3) {
		name := []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory}[r.IntN(2)]
		goal := autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: ptr.To(20 + r.Int32N(150))}
		if one(3) {
			goal = autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: ptr.To(resource.MustParse(fmt.Sprint(20+r.IntN(200), "m")))}
			if name == v1.ResourceMemory {
				goal.AverageValue = ptr.To(resource.MustParse(fmt.Sprint(10+r.IntN(90), "Mi")))
			}
		}
		m := autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{Name: name, Target: goal}}
		if one(4) {
			container := []string{"c", "c", "d"}[r.IntN(3)]
			m = autoscalingv2.MetricSpec{
				Type:              autoscalingv2.ContainerResourceMetricSourceType,
				ContainerResource: &autoscalingv2.ContainerResourceMetricSource{Name: name, Container: container, Target: goal},
			}
		}
		if one(2) {
			m = adapted(r)
		}
		h.Spec.Metrics = append(h.Spec.Metrics, m)
	}
	if one(2) {
		rules := func() *autoscalingv2.HPAScalingRules {
			s := &autoscalingv2.HPAScalingRules{}
			if one(2) {
				s.StabilizationWindowSeconds = ptr.To(r.Int32N(90))
			}
			if one(2) {
				choices := []autoscalingv2.ScalingPolicySelect{autoscalingv2.MaxChangePolicySelect, autoscalingv2.MinChangePolicySelect, autoscalingv2.DisabledPolicySelect}
				s.SelectPolicy = &choices[r.IntN(3)]
			}
			if one(3) {
				s.Tolerance = ptr.To(resource.MustParse([]string{"0", "0.05", "0.5", "50m"}[r.IntN(4)]))
			}
			for range r.IntN(3) {
				kind := []autoscalingv2.HPAScalingPolicyType{autoscalingv2.PodsScalingPolicy, autoscalingv2.PercentScalingPolicy}[r.IntN(2)]
				s.Policies = append(s.Policies, autoscalingv2.HPAScalingPolicy{Type: kind, Value: 1 + r.Int32N(120), PeriodSeconds: 1 + r.Int32N(100)})
				if kind == autoscalingv2.PodsScalingPolicy {
					s.Policies[len(s.Policies)-1].Value = 1 + r.Int32N(5)
				}
			}
			return s
		}
		h.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{}
		if !one(4) {
			h.Spec.Behavior.ScaleUp = rules()
		}
		if !one(4) {
			h.Spec.Behavior.ScaleDown = rules()
		}
	}
	defaults.SetObjectDefaults_HorizontalPodAutoscaler(h)
	return h
}

// anyPod is a pod of the target in any state.
func anyPod(r *rand.Rand, name string, calm bool) *v1.Pod {
	one := func(n int) bool { return r.IntN(n) == 0 }
	now := time.Now().Truncate(time.Second)
	template := web(1).Spec.Template
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name), Labels: template.Labels},
		Spec:       *template.Spec.DeepCopy(),
		Status:     v1.PodStatus{Phase: v1.PodRunning, StartTime: ptr.To(metav1.NewTime(now.Add(-time.Hour)))},
	}
	p.Spec.NodeName = "n"
	if one(2) && !calm {
		p.Status.StartTime = ptr.To(metav1.NewTime(now.Add(-time.Duration(r.IntN(400)) * time.Second)))
	}
	ready := v1.PodCondition{Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(p.Status.StartTime.Add(time.Duration(r.IntN(60)) * time.Second))}
	switch n := r.IntN(14); {
	case calm:
	case n == 0:
		p.Status.Phase = v1.PodPending
	case n == 1:
		p.Status.Phase = v1.PodFailed
	case n == 2:
		ready.Status = v1.ConditionFalse
	case n == 3:
		at := metav1.NewTime(now)
		p.DeletionTimestamp, p.Finalizers = &at, []string{"x/y"}
	case n == 4 && one(4):
		p.Spec.Containers[0].Resources.Requests = nil
	}
	if calm || !one(12) {
		p.Status.Conditions = []v1.PodCondition{ready}
	}
	return p
}

// TestTheGuestDoesWhatUpstreamDoes lets both look at the same at the same times.
func TestTheGuestDoesWhatUpstreamDoes(t *testing.T) {
	t.Parallel()
	for seed := range *plays {
		compare(t, seed)
		if t.Failed() {
			return
		}
	}
}

// Upstream's errors would wait for each other, across bubbles.
func init() { utilruntime.ErrorHandlers = nil }

// few events reach the API from upstream as they are; of more it makes less.
const few = 8

func compare(t *testing.T, seed uint64) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 5))
	from := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	controllertest.PlayFrom(t, from, []string{"HorizontalPodAutoscaler"}, func(w *controllertest.World) {
		h, replicas, calm := invented(r), 1+r.Int32N(8), r.IntN(2) == 0
		var pods []*v1.Pod
		for i := range replicas {
			pods = append(pods, anyPod(r, fmt.Sprint("web-", i), calm))
		}
		ctx, stop := context.WithCancel(klog.NewContext(w.T.Context(), klog.Logger{}))
		defer w.Wait(time.Second)
		defer stop()
		u := newTheirs(ctx, w.T, h, replicas, pods)
		w.Measure(u)
		w.Use(func(p *v1.Pod) *host.Usage {
			u.mu.Lock()
			defer u.mu.Unlock()
			return u.usage[p.Name]
		})
		put := func(resource string, o store.Object) {
			op := store.Op{Kind: store.Create, Key: store.Key{Resource: resource, Namespace: "default", Name: o.GetName()}, Object: o.DeepCopyObject().(store.Object)}
			if _, _, err := w.Store.Commit(w.T.Context(), op); err != nil {
				w.T.Fatal(err)
			}
		}
		for _, p := range pods {
			put("pods", p)
		}
		w.Create(sets, web(replicas))
		have(w, replicas)
		use(r, u, pods, calm)
		w.Wait(15 * time.Second) // upstream looks first when a period is over
		put(autoscalers, h)
		var told, story []string
		spec, _ := json.Marshal(h.Spec)
		for look := range 12 {
			w.Wait(time.Second)
			for _, e := range w.Events() {
				told = append(told, strings.TrimPrefix(e, "web "))
			}
			theirs, err := u.client.AutoscalingV2().HorizontalPodAutoscalers("default").Get(ctx, "web", metav1.GetOptions{})
			if err != nil {
				w.T.Fatal(err)
			}
			ours := status(w)
			u.mu.Lock()
			want, got := stateOf(u.replicas, &theirs.Status, u.events), stateOf(replicasOf(w), &ours, told)
			u.mu.Unlock()
			if len(told) > few {
				want.Events, got.Events = nil, nil
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("seed %d, look %d (-upstream +guest):\n%s\n%s\n%s", seed, look, diff, spec, strings.Join(story, "\n"))
				return
			}
			story = append(story, fmt.Sprint(look, " ", got.Replicas, got.Status))
			have(w, got.Replicas)
			for i := int32(len(pods)); i < got.Replicas; i++ {
				p := anyPod(r, fmt.Sprint("web-", i), calm)
				pods = append(pods, p)
				put("pods", p)
				if err := u.client.Tracker().Create(schema.GroupVersionResource{Version: "v1", Resource: "pods"}, p.DeepCopy(), "default"); err != nil {
					w.T.Fatal(err)
				}
			}
			if r.IntN(3) > 0 {
				use(r, u, pods, calm)
			}
			w.Wait(14 * time.Second)
		}
	})
}

func replicasOf(w *controllertest.World) int32 { return replicas(w) }

// use says what each pod uses from now on.
func use(r *rand.Rand, u *theirs, pods []*v1.Pod, calm bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.usage = map[string]*host.Usage{}
	u.adapters.change(r, pods, calm)
	if !calm && r.IntN(10) == 0 {
		return
	}
	level := 1 + r.IntN(200)
	for _, p := range pods {
		if !calm && r.IntN(10) == 0 {
			continue
		}
		cpu, memory := level+r.IntN(20), level*400_000+r.IntN(1_000_000)
		u.usage[p.Name] = &host.Usage{Time: time.Now().Add(-time.Duration(r.IntN(10)) * time.Second), Window: 15 * time.Second, Containers: map[string]v1.ResourceList{"c": {
			v1.ResourceCPU: *resource.NewMilliQuantity(int64(cpu), resource.DecimalSI), v1.ResourceMemory: *resource.NewQuantity(int64(memory), resource.BinarySI),
		}}}
	}
}
