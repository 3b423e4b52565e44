package autoscaler

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	host "github.com/berth-dev/berth/host/controller"
	"github.com/berth-dev/berth/host/controller/controllertest"
	_ "github.com/berth-dev/berth/policies-wasm/controllers/replicaset"
)

const (
	autoscalers = "horizontalpodautoscalers.autoscaling"
	sets        = "replicasets.apps"
)

// web is a ReplicaSet whose pods request 100m of CPU and 64Mi of memory.
func web(replicas int32) *appsv1.ReplicaSet {
	labels := map[string]string{"app": "web"}
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: v1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "i:1", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
					v1.ResourceCPU: resource.MustParse("100m"), v1.ResourceMemory: resource.MustParse("64Mi"),
				}}}}},
			},
		},
	}
}

// scaler is an autoscaler of it for half of the CPU that is requested.
func scaler(least, most int32, say ...func(*autoscalingv2.HorizontalPodAutoscaler)) *autoscalingv2.HorizontalPodAutoscaler {
	h := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web"},
			MinReplicas:    &least, MaxReplicas: most,
			Metrics: []autoscalingv2.MetricSpec{{
				Type: autoscalingv2.ResourceMetricSourceType,
				Resource: &autoscalingv2.ResourceMetricSource{
					Name: v1.ResourceCPU, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: ptr.To[int32](50)},
				},
			}},
		},
	}
	for _, s := range say {
		s(h)
	}
	return h
}

// load has each pod use so much CPU, measured just now.
func load(w *controllertest.World, cpu string) {
	w.Use(func(*v1.Pod) *host.Usage {
		return &host.Usage{Time: time.Now(), Window: 15 * time.Second, Containers: map[string]v1.ResourceList{"c": {
			v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse("32Mi"),
		}}}
	})
}

func play(t *testing.T, test func(w *controllertest.World)) {
	t.Helper()
	controllertest.Play(t, []string{"ReplicaSet", "HorizontalPodAutoscaler"}, test)
}

func replicas(w *controllertest.World) int32 {
	return *controllertest.Get[*appsv1.ReplicaSet](w, sets, "web").Spec.Replicas
}

func status(w *controllertest.World) autoscalingv2.HorizontalPodAutoscalerStatus {
	return controllertest.Get[*autoscalingv2.HorizontalPodAutoscaler](w, autoscalers, "web").Status
}

// conditions are those of the autoscaler, in words.
func conditions(w *controllertest.World) (all []string) {
	for _, c := range status(w).Conditions {
		all = append(all, string(c.Type)+" "+string(c.Status)+" "+c.Reason+": "+c.Message)
	}
	return all
}

// events are the autoscaler's since the last call.
func events(w *controllertest.World) (all []string) {
	for _, e := range w.Events() {
		if !strings.Contains(e, "SuccessfulCreate") && !strings.Contains(e, "SuccessfulDelete") {
			all = append(all, strings.TrimPrefix(e, "web "))
		}
	}
	return slices.Compact(all)
}

func want(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestLoadScalesUpAndItsEndScalesDown(t *testing.T) {
	t.Parallel()
	play(t, func(w *controllertest.World) {
		w.Create(sets, web(2))
		load(w, "50m")
		w.Wait(10 * time.Minute) // the pods are no longer young
		w.Create(autoscalers, scaler(2, 10))
		w.Wait(time.Second)
		want(t, "replicas at the wanted use", int32(2), replicas(w))
		want(t, "conditions", []string{
			"AbleToScale True ReadyForNewScale: recommended size matches current size",
			"ScalingActive True ValidMetricFound: the HPA was able to successfully calculate a replica count from cpu resource utilization (percentage of request)",
			"ScalingLimited False DesiredWithinRange: the desired count is within the acceptable range",
		}, conditions(w))
		s := status(w)
		want(t, "current", []int32{2, 2}, []int32{s.CurrentReplicas, s.DesiredReplicas})
		want(t, "metrics", []string{"cpu 50 50m"}, current(s))

		load(w, "150m")
		w.Wait(20 * time.Second)
		want(t, "replicas at first: twice as many, or four", int32(4), replicas(w))
		want(t, "events", []string{"Normal SuccessfulRescale: New size: 4; reason: cpu resource utilization (percentage of request) above target"}, events(w))
		want(t, "last scaled", true, status(w).LastScaleTime != nil)

		load(w, "20m")
		w.Wait(4 * time.Minute)
		want(t, "replicas while it may have been a dip: the most of the last five minutes", int32(6), replicas(w))
		w.Wait(10 * time.Minute)
		want(t, "replicas in the end", int32(2), replicas(w))
	})
}

// current are the metrics of a status, in words.
func current(s autoscalingv2.HorizontalPodAutoscalerStatus) (all []string) {
	show := func(name string, v autoscalingv2.MetricValueStatus) string {
		text := name
		if v.AverageUtilization != nil {
			text += " " + strconv.Itoa(int(*v.AverageUtilization))
		}
		return text + " " + v.AverageValue.String()
	}
	for _, m := range s.CurrentMetrics {
		switch {
		case m.Resource != nil:
			all = append(all, show(string(m.Resource.Name), m.Resource.Current))
		case m.ContainerResource != nil:
			all = append(all, show(m.ContainerResource.Container+"/"+string(m.ContainerResource.Name), m.ContainerResource.Current))
		default:
			all = append(all, string(m.Type))
		}
	}
	return all
}

func TestWhatKeepsItFromScaling(t *testing.T) {
	t.Parallel()
	metric := func(m autoscalingv2.MetricSpec) func(*autoscalingv2.HorizontalPodAutoscaler) {
		return func(h *autoscalingv2.HorizontalPodAutoscaler) { h.Spec.Metrics = []autoscalingv2.MetricSpec{m} }
	}
	to := func(apiVersion, kind, name string) func(*autoscalingv2.HorizontalPodAutoscaler) {
		return func(h *autoscalingv2.HorizontalPodAutoscaler) {
			h.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: apiVersion, Kind: kind, Name: name}
		}
	}
	each := autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: ptr.To(resource.MustParse("10"))}
	named := autoscalingv2.MetricIdentifier{Name: "requests"}
	const found = "AbleToScale True SucceededGetScale: the HPA controller was able to get the target's current scale"
	tests := []struct {
		name               string
		replicas           int32
		say                func(*autoscalingv2.HorizontalPodAutoscaler)
		unmeasured         bool
		conditions, events []string
	}{
		{
			name: "no such object", replicas: 2, say: to("apps/v1", "Deployment", "web"),
			conditions: []string{`AbleToScale False FailedGetScale: the HPA controller was unable to get the target's current scale: deployments.apps "web" not found`},
			events:     []string{`Warning FailedGetScale: deployments.apps "web" not found`},
		},
		{
			name: "no such kind", replicas: 2, say: to("example.com/v1", "Widget", "web"),
			conditions: []string{`AbleToScale False FailedGetScale: the HPA controller was unable to get the target's current scale: no matches for kind "Widget" in group "example.com"`},
			events:     []string{`Warning FailedGetScale: no matches for kind "Widget" in group "example.com"`},
		},
		{
			name: "scaled to nothing by hand", replicas: 0,
			conditions: []string{found, "ScalingActive False ScalingDisabled: scaling is disabled since the replica count of the target is zero"},
		},
		{
			name: "nobody measures", replicas: 2, unmeasured: true,
			conditions: []string{found, "ScalingActive False FailedGetResourceMetric: the HPA was unable to compute the replica count: failed to get cpu utilization: unable to get metrics for resource cpu: no metrics returned from resource metrics API"},
			events: []string{
				"Warning FailedGetResourceMetric: failed to get cpu utilization: unable to get metrics for resource cpu: no metrics returned from resource metrics API",
				"Warning FailedComputeMetricsReplicas: invalid metrics (1 invalid out of 1), first error is: failed to get cpu resource metric value: failed to get cpu utilization: unable to get metrics for resource cpu: no metrics returned from resource metrics API",
			},
		},
		{
			name: "a metric of pods without an adapter", replicas: 2,
			say:        metric(autoscalingv2.MetricSpec{Type: autoscalingv2.PodsMetricSourceType, Pods: &autoscalingv2.PodsMetricSource{Metric: named, Target: each}}),
			conditions: []string{found, "ScalingActive False FailedGetPodsMetric: the HPA was unable to compute the replica count: unable to get metric requests: unable to fetch metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered"},
			events: []string{
				"Warning FailedGetPodsMetric: unable to get metric requests: unable to fetch metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered",
				"Warning FailedComputeMetricsReplicas: invalid metrics (1 invalid out of 1), first error is: failed to get pods metric value: unable to get metric requests: unable to fetch metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered",
			},
		},
		{
			name: "an external metric without one", replicas: 2,
			say:        metric(autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{Metric: named, Target: each}}),
			conditions: []string{found, "ScalingActive False FailedGetExternalMetric: the HPA was unable to compute the replica count: unable to get external metric default/requests/nil: unable to fetch metrics from external metrics API: the server could not find the requested resource (get requests.external.metrics.k8s.io)"},
			events: []string{
				"Warning FailedGetExternalMetric: unable to get external metric default/requests/nil: unable to fetch metrics from external metrics API: the server could not find the requested resource (get requests.external.metrics.k8s.io)",
				"Warning FailedComputeMetricsReplicas: invalid metrics (1 invalid out of 1), first error is: failed to get requests external metric value: failed to get requests external metric: unable to get external metric default/requests/nil: unable to fetch metrics from external metrics API: the server could not find the requested resource (get requests.external.metrics.k8s.io)",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			play(t, func(w *controllertest.World) {
				w.Create(sets, web(tt.replicas))
				if !tt.unmeasured {
					load(w, "500m")
				}
				w.Wait(10 * time.Minute)
				w.Events()
				h := scaler(1, 10)
				if tt.say != nil {
					tt.say(h)
				}
				w.Create(autoscalers, h)
				w.Wait(time.Second)
				want(t, "conditions", tt.conditions, conditions(w))
				want(t, "events", tt.events, events(w))
				want(t, "replicas", tt.replicas, replicas(w))
			})
		})
	}
}

func TestBoundsHoldWithoutAMetric(t *testing.T) {
	t.Parallel()
	play(t, func(w *controllertest.World) {
		w.Create(sets, web(8))
		w.Create(autoscalers, scaler(2, 5))
		w.Wait(time.Second)
		want(t, "replicas", int32(5), replicas(w))
		want(t, "events", []string{"Normal SuccessfulRescale: New size: 5; reason: Current number of replicas above Spec.MaxReplicas"}, events(w))
		want(t, "condition", "AbleToScale True SucceededRescale: the HPA controller was able to update the target scale to 5", conditions(w)[0])
		controllertest.Change(w, autoscalers, "", "web", func(h *autoscalingv2.HorizontalPodAutoscaler) {
			h.Spec.MinReplicas, h.Spec.MaxReplicas = ptr.To[int32](7), 9
		})
		w.Wait(time.Second)
		want(t, "replicas once the spec changed, without a wait", int32(7), replicas(w))
		want(t, "events", []string{"Normal SuccessfulRescale: New size: 7; reason: Current number of replicas below Spec.MinReplicas"}, events(w))
	})
}

func TestTwoOfOneTargetLeaveItAlone(t *testing.T) {
	t.Parallel()
	play(t, func(w *controllertest.World) {
		load(w, "50m") // what is wanted, whichever of the two is asked about before the other is there
		w.Create(sets, web(2))
		w.Wait(10 * time.Minute)
		named := func(name, target string) func(*autoscalingv2.HorizontalPodAutoscaler) {
			return func(h *autoscalingv2.HorizontalPodAutoscaler) { h.Name, h.Spec.ScaleTargetRef.Name = name, target }
		}
		w.Create(autoscalers, scaler(1, 5))
		w.Create(autoscalers, scaler(1, 9, named("more", "web")))
		w.Create(autoscalers, scaler(1, 9, named("other", "other")))
		w.Wait(time.Minute)
		load(w, "200m")
		w.Wait(time.Minute)
		why := "the target's pods are controlled by multiple HPAs: [default/more default/web]"
		if all := conditions(w); !slices.Contains(all, "ScalingActive False AmbiguousSelector: "+why) {
			t.Errorf("conditions %q", all)
		}
		if all := events(w); !slices.Contains(all, "Warning AmbiguousSelector: "+why) || !slices.Contains(all, "Warning FailedComputeMetricsReplicas: "+why) {
			t.Errorf("events %q", all)
		}
		want(t, "replicas", int32(2), replicas(w))
		w.Delete(autoscalers, "more", nil)
		w.Wait(time.Minute)
		want(t, "replicas of one alone", int32(5), replicas(w))
	})
}

func TestAContainersMemory(t *testing.T) {
	t.Parallel()
	play(t, func(w *controllertest.World) {
		w.Create(sets, web(2))
		load(w, "10m")
		w.Wait(time.Minute)
		w.Create(autoscalers, scaler(1, 10, func(h *autoscalingv2.HorizontalPodAutoscaler) {
			goal := autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: ptr.To(resource.MustParse("16Mi"))}
			h.Spec.Metrics = []autoscalingv2.MetricSpec{{
				Type:              autoscalingv2.ContainerResourceMetricSourceType,
				ContainerResource: &autoscalingv2.ContainerResourceMetricSource{Name: v1.ResourceMemory, Container: "c", Target: goal},
			}}
		}))
		w.Wait(time.Second)
		want(t, "replicas", int32(4), replicas(w))
		want(t, "metrics", []string{"c/memory 32Mi"}, current(status(w)))
		want(t, "events", []string{"Normal SuccessfulRescale: New size: 4; reason: memory resource above target"}, events(w))
	})
}
