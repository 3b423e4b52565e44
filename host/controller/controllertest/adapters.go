package controllertest

import (
	"context"
	"errors"
	"fmt"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/kubernetes/pkg/controller/podautoscaler/metrics"
)

// Measure says who answers for adapters from now on; before that there are none.
func (w *World) Measure(client metrics.MetricsClient) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.client = client
}

// adapters are those of a world.
type adapters struct{ w *World }

func (a adapters) client() metrics.MetricsClient {
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	if a.w.client == nil {
		return absent{}
	}
	return a.w.client
}

// GetResourceMetric implements metrics.MetricsClient.
func (a adapters) GetResourceMetric(ctx context.Context, resource v1.ResourceName, namespace string, selector labels.Selector, container string) (metrics.PodMetricsInfo, time.Time, error) {
	return a.client().GetResourceMetric(ctx, resource, namespace, selector, container)
}

// GetRawMetric implements metrics.MetricsClient.
func (a adapters) GetRawMetric(name, namespace string, pods, selector labels.Selector) (metrics.PodMetricsInfo, time.Time, error) {
	return a.client().GetRawMetric(name, namespace, pods, selector)
}

// GetObjectMetric implements metrics.MetricsClient.
func (a adapters) GetObjectMetric(name, namespace string, about *autoscalingv2.CrossVersionObjectReference, selector labels.Selector) (int64, time.Time, error) {
	return a.client().GetObjectMetric(name, namespace, about, selector)
}

// GetExternalMetric implements metrics.MetricsClient.
func (a adapters) GetExternalMetric(name, namespace string, selector labels.Selector) ([]int64, time.Time, error) {
	return a.client().GetExternalMetric(name, namespace, selector)
}

// absent is a cluster without adapters.
type absent struct{}

var errAbsent = errors.New("unable to fetch metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered")

// GetResourceMetric implements metrics.MetricsClient.
func (absent) GetResourceMetric(context.Context, v1.ResourceName, string, labels.Selector, string) (metrics.PodMetricsInfo, time.Time, error) {
	return nil, time.Time{}, errAbsent
}

// GetRawMetric implements metrics.MetricsClient.
func (absent) GetRawMetric(string, string, labels.Selector, labels.Selector) (metrics.PodMetricsInfo, time.Time, error) {
	return nil, time.Time{}, errAbsent
}

// GetObjectMetric implements metrics.MetricsClient.
func (absent) GetObjectMetric(string, string, *autoscalingv2.CrossVersionObjectReference, labels.Selector) (int64, time.Time, error) {
	return 0, time.Time{}, errAbsent
}

// GetExternalMetric implements metrics.MetricsClient.
func (absent) GetExternalMetric(name, _ string, _ labels.Selector) ([]int64, time.Time, error) {
	return nil, time.Time{}, fmt.Errorf("unable to fetch metrics from external metrics API: the server could not find the requested resource (get %s.external.metrics.k8s.io)", name)
}
