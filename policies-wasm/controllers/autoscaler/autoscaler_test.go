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
