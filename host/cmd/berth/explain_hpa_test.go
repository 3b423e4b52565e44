package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/host"
	"github.com/berth-dev/berth/host/api/berthapi"
)

// What an adapter told of is part of the question: it is explained, and derived
// again when the adapter is away.
func TestAnAutoscalersAnswerByAnAdapterIsExplainedAndReplayed(t *testing.T) {
	t.Parallel()
	var away atomic.Bool
	adapter := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case away.Load():
			http.Error(w, "away", http.StatusServiceUnavailable)
		case strings.Count(strings.Trim(r.URL.Path, "/"), "/") == 2:
			fmt.Fprint(w, `{"kind":"APIResourceList","groupVersion":"external.metrics.k8s.io/v1beta1","resources":[]}`)
		default:
			fmt.Fprint(w, `{"kind":"ExternalMetricValueList","apiVersion":"external.metrics.k8s.io/v1beta1","items":[{"metricName":"queue","timestamp":"2026-01-01T00:00:00Z","value":"300"}]}`)
		}
	}))
	defer func() { adapter.CloseClientConnections(); adapter.Close() }()
	kubeconfig, _ := startHost(t, t.TempDir(), func(c *host.Config) {
		c.DialBackend = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, adapter.Listener.Addr().String())
		}
	})
	client := schedulable(t, kubeconfig, 0, 0)
	externallyScaled(t, client)
	eventually(t, "the Deployment has what the adapter's value asks for", func() bool {
		d, err := client.AppsV1().Deployments("default").Get(t.Context(), "web", metav1.GetOptions{})
		return err == nil && *d.Spec.Replicas == 3 && d.Status.Replicas == 3
	})
	var out string
	eventually(t, "the autoscaler's word is told", func() bool {
		out = mustBerth(t, "explain", "hpa", "web", "--kubeconfig", kubeconfig)
		return strings.Contains(out, "ScalingActive is True") && strings.Contains(out, "external metric queue")
	})
	t.Log(out)
	away.Store(true)
	at, scaled := time.Now(), ""
	for !strings.Contains(scaled, "then: patches Deployment web") { // until the questions kept end
		var r berthapi.Reconciled
		replay := []string{"replay", "hpa/web", "--at", at.Format(time.RFC3339Nano), "--kubeconfig", kubeconfig}
		if err := json.Unmarshal([]byte(mustBerth(t, append(replay, "-o", "json")...)), &r); err != nil {
			t.Fatal(err)
		}
		scaled = mustBerth(t, replay...)
		at = r.At.Add(-time.Nanosecond)
	}
	if !strings.Contains(scaled, "true") || strings.Contains(scaled, "again:") {
		t.Errorf("without the adapter something else comes out:\n%s", scaled)
	}
}

// externallyScaled makes a Deployment, and has it scaled by a queue of which the
// adapter tells.
func externallyScaled(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(client.CoreV1().Services("default").Create(t.Context(), &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "adapter"}, Spec: v1.ServiceSpec{ClusterIP: "None", Ports: []v1.ServicePort{{Port: 443}}},
	}, metav1.CreateOptions{}))
	must(client.DiscoveryV1().EndpointSlices("default").Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "adapter-1", Labels: map[string]string{discoveryv1.LabelServiceName: "adapter"}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Port: ptr.To[int32](443)}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.1.2.3"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}},
	}, metav1.CreateOptions{}))
	const body = `{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"v1beta1.external.metrics.k8s.io"},"spec":{"group":"external.metrics.k8s.io","version":"v1beta1","groupPriorityMinimum":100,"versionPriority":10,"insecureSkipTLSVerify":true,"service":{"namespace":"default","name":"adapter"}}}`
	const path = "/apis/apiregistration.k8s.io/v1/apiservices"
	raw := client.CoreV1().RESTClient()
	must(raw.Post().AbsPath(path).SetHeader("Content-Type", "application/json").Body([]byte(body)).DoRaw(t.Context()))
	eventually(t, "the adapter is available", func() bool {
		text, err := raw.Get().AbsPath(path + "/v1beta1.external.metrics.k8s.io").DoRaw(t.Context())
		return err == nil && strings.Contains(string(text), `"reason":"Passed"`)
	})
	labels := map[string]string{"app": "web"}
	must(client.AppsV1().Deployments("default").Create(t.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{
		Replicas: ptr.To[int32](1), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: onePod("").Spec},
	}}, metav1.CreateOptions{}))
	must(client.AutoscalingV2().HorizontalPodAutoscalers("default").Create(t.Context(), &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}, MaxReplicas: 9,
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{
				Metric: autoscalingv2.MetricIdentifier{Name: "queue"},
				Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: resource.NewQuantity(100, resource.DecimalSI)},
			}}},
		},
	}, metav1.CreateOptions{}))
}
