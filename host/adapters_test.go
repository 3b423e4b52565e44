package host_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
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
	"github.com/berth-dev/berth/host/polltest"
)

// adapter answers about metrics for any pod, object and queue, or not at all.
type adapter struct {
	value atomic.Int64 // below 0 it is away
	pod   atomic.Pointer[string]
}

// ServeHTTP implements http.Handler.
func (a *adapter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	value := a.value.Load()
	switch path := strings.Trim(r.URL.Path, "/"); {
	case value < 0:
		http.Error(w, "the adapter is away", http.StatusServiceUnavailable)
	case strings.Count(path, "/") == 2:
		fmt.Fprint(w, `{"kind":"APIResourceList","groupVersion":"x/v1","resources":[]}`)
	case r.Header.Get("X-Remote-User") != "system:serviceaccount:kube-system:horizontal-pod-autoscaler":
		http.Error(w, "who?", http.StatusForbidden)
	case strings.HasPrefix(path, "apis/external"):
		fmt.Fprintf(w, `{"kind":"ExternalMetricValueList","apiVersion":"external.metrics.k8s.io/v1beta1","items":[{"metricName":"queue","timestamp":"2026-01-01T00:00:00Z","value":"%d"}]}`, value)
	default:
		fmt.Fprintf(w, `{"kind":"MetricValueList","apiVersion":"custom.metrics.k8s.io/v1beta1","items":[{"describedObject":{"kind":"K","name":%q},"metricName":"queue","timestamp":"2026-01-01T00:00:00Z","value":"%d"}]}`, *a.pod.Load(), value)
	}
}

// TestAutoscalersScaleByWhatAdaptersAnswer goes the whole way: API, aggregation,
// autoscaler and Deployment.
func TestAutoscalersScaleByWhatAdaptersAnswer(t *testing.T) {
	t.Parallel()
	a := &adapter{}
	a.pod.Store(ptr.To(""))
	a.value.Store(300)
	server := httptest.NewUnstartedServer(a)
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	server.StartTLS()
	defer func() { server.CloseClientConnections(); server.Close() }()
	client, serving, _ := start(t, t.TempDir(), func(c *host.Config) {
		c.DialBackend = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
		}
	})
	registerAdapter(t, client, serving)
	queue := autoscalingv2.MetricIdentifier{Name: "queue"}
	whole := func(n int64) autoscalingv2.MetricTarget {
		return autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType, Value: resource.NewQuantity(n, resource.DecimalSI)}
	}
	each := func(n int64) autoscalingv2.MetricTarget {
		return autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: resource.NewQuantity(n, resource.DecimalSI)}
	}
	for name, of := range map[string]func(n int64) autoscalingv2.MetricSpec{
		"pods": func(n int64) autoscalingv2.MetricSpec {
			return autoscalingv2.MetricSpec{Type: autoscalingv2.PodsMetricSourceType, Pods: &autoscalingv2.PodsMetricSource{Metric: queue, Target: each(n)}}
		},
		"object": func(n int64) autoscalingv2.MetricSpec {
			return autoscalingv2.MetricSpec{Type: autoscalingv2.ObjectMetricSourceType, Object: &autoscalingv2.ObjectMetricSource{
				Metric: queue, Target: whole(n), DescribedObject: autoscalingv2.CrossVersionObjectReference{APIVersion: "v1", Kind: "Service", Name: "adapter"},
			}}
		},
		"external": func(n int64) autoscalingv2.MetricSpec {
			return autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{Metric: queue, Target: each(n)}}
		},
	} {
		a.value.Store(300)
		deploy(t, client, a, name)
		hpas := client.AutoscalingV2().HorizontalPodAutoscalers("default")
		if _, err := hpas.Create(t.Context(), &autoscalingv2.HorizontalPodAutoscaler{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
				ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: name},
				MaxReplicas:    9, Metrics: []autoscalingv2.MetricSpec{of(100)},
			},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		replicas := func() int32 {
			d, err := client.AppsV1().Deployments("default").Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return min(*d.Spec.Replicas, d.Status.Replicas)
		}
		// Another goal is looked at at once, by a new answer.
		aim := func(n int64) {
			polltest.Until(t, "the goal is written", func() bool {
				h, err := hpas.Get(t.Context(), name, metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				h.Spec.Metrics = []autoscalingv2.MetricSpec{of(n)}
				_, err = hpas.Update(t.Context(), h, metav1.UpdateOptions{})
				return err == nil
			})
		}
		polltest.Until(t, name+" has 3 replicas", func() bool { return replicas() == 3 })
		a.value.Store(-1)
		aim(99)
		polltest.Until(t, name+" is not scaled", func() bool {
			h, err := hpas.Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range h.Status.Conditions {
				if c.Type == autoscalingv2.ScalingActive {
					return c.Status == v1.ConditionFalse && strings.Contains(c.Message, "unable to handle the request")
				}
			}
			return false
		})
		if n := replicas(); n != 3 {
			t.Errorf("%s has %d replicas while the adapter is away", name, n)
		}
		a.value.Store(500)
		aim(100)
		polltest.Until(t, name+" has 5 replicas", func() bool { return replicas() == 5 })
	}
}

// TestBackendsKnowTheHostByItsFrontProxyCertificate: they take the user's name from
// who shows a certificate as the ConfigMap says it.
func TestBackendsKnowTheHostByItsFrontProxyCertificate(t *testing.T) {
	t.Parallel()
	var trust atomic.Pointer[map[string]string]
	a := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		config := trust.Load()
		if config == nil || len(r.TLS.PeerCertificates) == 0 {
			http.Error(w, "who shows no certificate is not believed", http.StatusUnauthorized)
			return
		}
		roots, shown := x509.NewCertPool(), r.TLS.PeerCertificates[0]
		roots.AppendCertsFromPEM([]byte((*config)["requestheader-client-ca-file"]))
		_, err := shown.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		if allowed := (*config)["requestheader-allowed-names"]; err != nil || allowed != fmt.Sprintf("[%q]", shown.Subject.CommonName) {
			http.Error(w, fmt.Sprintf("%q is none of %s: %v", shown.Subject.CommonName, allowed, err), http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"kind":"APIResourceList","groupVersion":"custom.metrics.k8s.io/v1beta1","user":%q,"resources":[]}`, r.Header.Get("X-Remote-User"))
	})
	server := httptest.NewUnstartedServer(a)
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequestClientCert}
	server.StartTLS()
	defer func() { server.CloseClientConnections(); server.Close() }()
	client, serving, _ := start(t, t.TempDir(), func(c *host.Config) {
		c.DialBackend = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
		}
	})
	config, err := client.CoreV1().ConfigMaps("kube-system").Get(t.Context(), "extension-apiserver-authentication", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	trust.Store(&config.Data)
	registerAdapter(t, client, serving)
	if code, text := ask(t, serving, "GET", "/apis/custom.metrics.k8s.io/v1beta1/namespaces/default/pods/*/queue", ""); code != http.StatusOK || !strings.Contains(text, `"user":"berth-admin"`) {
		t.Errorf("the backend answers %d %s", code, text)
	}
}

// deploy runs one pod of a Deployment, which is ready.
func deploy(t *testing.T, client kubernetes.Interface, a *adapter, name string) {
	t.Helper()
	labels := map[string]string{"app": name}
	if _, err := client.AppsV1().Deployments("default").Create(t.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{
		Replicas: ptr.To[int32](1), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: plainPod("").Spec},
	}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "the pod of "+name+" is ready", func() bool {
		list, err := client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + name})
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Items) != 1 {
			return false
		}
		p := &list.Items[0]
		p.Status.Phase, p.Status.StartTime = v1.PodRunning, ptr.To(metav1.NewTime(time.Now().Add(-time.Hour)))
		p.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: metav1.Now()}}
		a.pod.Store(&p.Name)
		_, err = client.CoreV1().Pods("default").UpdateStatus(t.Context(), p, metav1.UpdateOptions{})
		return err == nil
	})
}

// registerAdapter names it for both APIs, and waits until it is there.
func registerAdapter(t *testing.T, client kubernetes.Interface, serving host.Serving) {
	t.Helper()
	if _, err := client.CoreV1().Services("default").Create(t.Context(), &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "adapter"}, Spec: v1.ServiceSpec{ClusterIP: "None", Ports: []v1.ServicePort{{Port: 443}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.DiscoveryV1().EndpointSlices("default").Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "adapter-1", Labels: map[string]string{discoveryv1.LabelServiceName: "adapter"}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Port: ptr.To[int32](443)}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.1.2.3"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, group := range []string{"custom.metrics.k8s.io", "external.metrics.k8s.io"} {
		body := fmt.Sprintf(`{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"v1beta1.%[1]s"},"spec":{"group":%[1]q,"version":"v1beta1","groupPriorityMinimum":100,"versionPriority":10,"insecureSkipTLSVerify":true,"service":{"namespace":"default","name":"adapter"}}}`, group)
		const path = "/apis/apiregistration.k8s.io/v1/apiservices"
		if code, text := ask(t, serving, "POST", path, body); code != 201 {
			t.Fatalf("POST = %d %s", code, text)
		}
		polltest.Until(t, group+" is available", func() bool {
			_, text := ask(t, serving, "GET", path+"/v1beta1."+group, "")
			return strings.Contains(text, `"reason":"Passed"`)
		})
	}
}
