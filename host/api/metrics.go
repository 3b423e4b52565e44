package api

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/berth-dev/berth/host/api/registry"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// listMetrics answers metrics.k8s.io from what node agents report.
func (k *call) listMetrics() error {
	list, err := k.metrics()
	if err != nil {
		return err
	}
	return k.any(http.StatusOK, list, k.place.version.WithKind(k.place.kind.Name+"List"))
}

func (k *call) metrics() (runtime.Object, error) {
	if k.server.Metrics == nil {
		return nil, pathNotFound()
	}
	r, err := k.request()
	if err != nil {
		return nil, err
	}
	selector, err := registry.ParseSelector(r, k.query.get("labelSelector"), k.query.get("fieldSelector"))
	if err != nil {
		return nil, err
	}
	if k.place.kind.Name == "NodeMetrics" {
		items, err := k.server.Metrics.NodeMetrics(k.r.Context())
		items = picked(items, &selector, func(m *metricsv1beta1.NodeMetrics) *metav1.ObjectMeta { return &m.ObjectMeta })
		return &metricsv1beta1.NodeMetricsList{Items: items}, err
	}
	items, err := k.server.Metrics.PodMetrics(k.r.Context(), r.Namespace)
	items = picked(items, &selector, func(m *metricsv1beta1.PodMetrics) *metav1.ObjectMeta { return &m.ObjectMeta })
	return &metricsv1beta1.PodMetricsList{Items: items}, err
}

// picked are those that a selector matches, by namespace and name.
func picked[T any](items []T, selector *registry.Selector, meta func(*T) *metav1.ObjectMeta) []T {
	items = slices.DeleteFunc(slices.Clone(items), func(item T) bool {
		m := meta(&item)
		named := fields.Set{"metadata.name": m.Name, "metadata.namespace": m.Namespace}
		return (selector.Labels != nil && !selector.Labels.Matches(labels.Set(m.Labels))) || (selector.Fields != nil && !selector.Fields.Matches(named))
	})
	slices.SortFunc(items, func(a, b T) int {
		x, y := meta(&a), meta(&b)
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
	return items
}

func (k *call) getMetrics() error {
	list, err := k.metrics()
	if err != nil {
		return err
	}
	gvk := k.place.version.WithKind(k.place.kind.Name)
	name := k.param("name")
	switch l := list.(type) {
	case *metricsv1beta1.NodeMetricsList:
		for i := range l.Items {
			if l.Items[i].Name == name {
				return k.any(http.StatusOK, &l.Items[i], gvk)
			}
		}
	case *metricsv1beta1.PodMetricsList:
		for i := range l.Items {
			if l.Items[i].Name == name {
				return k.any(http.StatusOK, &l.Items[i], gvk)
			}
		}
	}
	return apierrors.NewNotFound(k.place.kind.GroupResource(), name)
}
