package api_test

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"testing"

	"github.com/berth-dev/berth/host/api/apitest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// measured is the use of two nodes and of pods in two namespaces.
type measured struct{}

func (measured) NodeMetrics(context.Context) ([]metricsv1beta1.NodeMetrics, error) {
	return []metricsv1beta1.NodeMetrics{{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, {ObjectMeta: metav1.ObjectMeta{Name: "n2"}}}, nil
}

func (measured) PodMetrics(context.Context, string) ([]metricsv1beta1.PodMetrics, error) {
	var all []metricsv1beta1.PodMetrics
	for _, namespace := range []string{"a", "b"} {
		for _, name := range []string{"mine", "other"} {
			all = append(all, metricsv1beta1.PodMetrics{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
		}
	}
	return all, nil
}

// Whoever may list the metrics of one name asks with a field selector, so it must
// hold.
func TestMetricsAreThoseThatAFieldSelectorPicks(t *testing.T) {
	t.Parallel()
	c := newCurl(t, apitest.With(func(p *apitest.Parts) { p.API.Metrics = measured{} }))
	for _, test := range []struct {
		resource, selector string
		want               []string
	}{
		{"pods", "", []string{"a/mine", "a/other", "b/mine", "b/other"}},
		{"pods", "metadata.name=mine", []string{"a/mine", "b/mine"}},
		{"pods", "metadata.namespace=b,metadata.name!=mine", []string{"b/other"}},
		{"nodes", "metadata.name=n2", []string{"/n2"}},
		{"nodes", "metadata.name=n3", nil},
	} {
		answer, doc := c.ask(http.MethodGet, "/apis/metrics.k8s.io/v1beta1/"+test.resource+"?fieldSelector="+url.QueryEscape(test.selector), "")
		var got []string
		items, _ := doc["items"].([]any)
		for _, item := range items {
			namespace, _ := at(item.(map[string]any), "metadata.namespace").(string)
			got = append(got, namespace+"/"+at(item.(map[string]any), "metadata.name").(string))
		}
		if answer.StatusCode != http.StatusOK || !slices.Equal(got, test.want) {
			t.Errorf("%s by %q = %d %v, want %v", test.resource, test.selector, answer.StatusCode, got, test.want)
		}
	}
	if answer, _ := c.ask(http.MethodGet, "/apis/metrics.k8s.io/v1beta1/pods?fieldSelector=spec.nodeName%3Dn1", ""); answer.StatusCode != http.StatusBadRequest {
		t.Errorf("a field that metrics have not = %d, want 400", answer.StatusCode)
	}
}
