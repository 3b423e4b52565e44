package autoscaler

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/kubernetes/pkg/controller/podautoscaler/metrics"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/host/controller/controllertest"
)

// adapters are what both ask: they answer, answer in part, fail, or are not there.
type adapters struct {
	pods            metrics.PodMetricsInfo
	object          int64
	external        []int64
	custom, outside error
}

var (
	errNoCustom   = errors.New("unable to fetch metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered")
	errNoExternal = errors.New("unable to fetch metrics from external metrics API: the server could not find the requested resource (get queue.external.metrics.k8s.io)")
	errFails      = errors.New("unable to fetch metrics from custom metrics API: the server is currently unable to handle the request")
)

// change makes other answers up.
func (a *adapters) change(r *rand.Rand, pods []*v1.Pod, calm bool) {
	one := func(n int) bool { return r.IntN(n) == 0 }
	*a = adapters{pods: metrics.PodMetricsInfo{}}
	level := 1 + r.Int64N(200_000)
	for _, p := range pods {
		if !calm && one(8) {
			continue
		}
		a.pods[p.Name] = metrics.PodMetric{Timestamp: time.Now(), Window: time.Minute, Value: level + r.Int64N(1+level/10)}
	}
	a.object = level * int64(1+r.IntN(1+2*len(pods)))
	for range 1 + r.IntN(3) {
		a.external = append(a.external, level*int64(1+r.IntN(1+len(pods))))
	}
	if calm {
		return
	}
	switch r.IntN(14) {
	case 0:
		a.custom = errNoCustom
	case 1:
		a.custom, a.outside = errFails, errFails
	case 2:
		a.outside = errNoExternal
	case 3:
		a.pods["stranger"] = metrics.PodMetric{Value: 3 * level}
	case 4:
		a.object, a.external = -level, []int64{-level}
	case 5:
		a.object, a.external = 0, []int64{0}
	case 6:
		// Of an object's average, upstream does not bound the replicas to an int32.
		a.object, a.external = 1<<30, []int64{math.MaxInt64, math.MaxInt64}
	case 7:
		a.pods = metrics.PodMetricsInfo{}
	}
}

// GetRawMetric implements metrics.MetricsClient.
func (u *theirs) GetRawMetric(string, string, labels.Selector, labels.Selector) (metrics.PodMetricsInfo, time.Time, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.adapters.custom != nil {
		return nil, time.Time{}, u.adapters.custom
	}
	return maps.Clone(u.adapters.pods), time.Time{}, nil
}

// GetObjectMetric implements metrics.MetricsClient.
func (u *theirs) GetObjectMetric(string, string, *autoscalingv2.CrossVersionObjectReference, labels.Selector) (int64, time.Time, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.adapters.object, time.Time{}, u.adapters.custom
}

// GetExternalMetric implements metrics.MetricsClient.
func (u *theirs) GetExternalMetric(string, string, labels.Selector) ([]int64, time.Time, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.adapters.external, time.Time{}, u.adapters.outside
}

// adapted is a metric that an adapter answers for.
func adapted(r *rand.Rand) autoscalingv2.MetricSpec {
	amount := ptr.To(resource.MustParse(fmt.Sprint(1+r.IntN(300_000), "m")))
	id := autoscalingv2.MetricIdentifier{Name: "queue"}
	switch r.IntN(4) {
	case 0:
		id.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"b": "2", "a": "1"}}
	case 1:
		id.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "k", Operator: metav1.LabelSelectorOpIn, Values: []string{"v", "w"}}}}
	}
	target := autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: amount}
	if r.IntN(2) == 0 {
		target = autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType, Value: amount}
	}
	switch r.IntN(3) {
	case 0:
		target = autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: amount}
		return autoscalingv2.MetricSpec{Type: autoscalingv2.PodsMetricSourceType, Pods: &autoscalingv2.PodsMetricSource{Metric: id, Target: target}}
	case 1:
		about := autoscalingv2.CrossVersionObjectReference{APIVersion: "networking.k8s.io/v1", Kind: "Ingress", Name: "front"}
		return autoscalingv2.MetricSpec{Type: autoscalingv2.ObjectMetricSourceType, Object: &autoscalingv2.ObjectMetricSource{Metric: id, Target: target, DescribedObject: about}}
	}
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{Metric: id, Target: target}}
}

// have says that the target has all its replicas.
func have(w *controllertest.World, n int32) {
	controllertest.Change(w, sets, "status", "web", func(s *appsv1.ReplicaSet) { s.Status.Replicas = n })
}
