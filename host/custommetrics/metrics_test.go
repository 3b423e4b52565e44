package custommetrics_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	upstream "k8s.io/kubernetes/pkg/controller/podautoscaler/metrics"

	"github.com/berth-dev/berth/host/api/aggregate"
	"github.com/berth-dev/berth/host/api/apitest"
	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/auth/ca"
	"github.com/berth-dev/berth/host/auth/view"
	"github.com/berth-dev/berth/host/custommetrics"
	"github.com/berth-dev/berth/host/polltest"
	"github.com/berth-dev/berth/host/store"
)

const (
	apiServices = "apiservices.apiregistration.k8s.io"
	who         = "system:serviceaccount:kube-system:horizontal-pod-autoscaler"
)

// cluster is an API whose APIServices lead to one adapter.
type cluster struct {
	*apitest.Server
	authority *ca.Authority
	aggregate *aggregate.Aggregator
}

func start(t *testing.T, adapter http.HandlerFunc) *cluster {
	t.Helper()
	authority, err := ca.Open(t.TempDir(), "adapter", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue(ca.Subject{Name: "adapter", DNS: []string{"adapter.default.svc"}})
	if err != nil {
		t.Fatal(err)
	}
	cert, err := pair.TLS()
	if err != nil {
		t.Fatal(err)
	}
	backend := httptest.NewUnstartedServer(adapter)
	backend.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	backend.StartTLS()
	t.Cleanup(func() { backend.CloseClientConnections(); backend.Close() })
	c := &cluster{authority: authority}
	c.Server = apitest.Start(t, apitest.With(func(p *apitest.Parts) {
		c.aggregate = aggregate.New(aggregate.Config{Objects: view.Of(p.Registry.Store), Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, backend.Listener.Addr().String())
		}})
		p.API.Aggregate = c.aggregate
	}))
	c.aggregate.Registry = c.Registry
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.aggregate.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return c
}

func (c *cluster) create(t *testing.T, resource string, o store.Object) {
	t.Helper()
	if _, err := c.Registry.Create(t.Context(), registry.On(resource, o.GetNamespace(), o.GetName()), o); err != nil {
		t.Fatal(err)
	}
}

// register has the adapter serve groups and versions, and waits until it does.
func (c *cluster) register(t *testing.T, served ...schema.GroupVersion) {
	t.Helper()
	port, target, ready := int32(443), int32(8443), true
	c.create(t, "services", &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "adapter"},
		Spec:       corev1.ServiceSpec{ClusterIP: "None", ClusterIPs: []string{"None"}, Ports: []corev1.ServicePort{{Port: port}}},
	})
	c.create(t, "endpointslices.discovery.k8s.io", &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: "adapter-1", Labels: map[string]string{discoveryv1.LabelServiceName: "adapter"}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Port: &target}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.1.2.3"}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
	})
	for _, gv := range served {
		c.create(t, apiServices, &apiregistrationv1.APIService{
			ObjectMeta: metav1.ObjectMeta{Name: gv.Version + "." + gv.Group},
			Spec: apiregistrationv1.APIServiceSpec{
				Group: gv.Group, Version: gv.Version, GroupPriorityMinimum: 100, VersionPriority: 10, CABundle: c.authority.PEM(),
				Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: "adapter", Port: &port},
			},
		})
		polltest.Until(t, gv.String()+" is available", func() bool {
			o, ok := c.Store.Get(store.Key{Resource: apiServices, Name: gv.Version + "." + gv.Group})
			return ok && len(o.(*apiregistrationv1.APIService).Status.Conditions) > 0 && o.(*apiregistrationv1.APIService).Status.Conditions[0].Status == "True"
		})
	}
}

func (c *cluster) metrics(t *testing.T, may func(authorizer.Attributes) error) *custommetrics.Metrics {
	t.Helper()
	a := &custommetrics.Adapters{
		Aggregate: c.aggregate, Who: &user.DefaultInfo{Name: who},
		May: func(_ context.Context, asks authorizer.Attributes) error { return may(asks) },
		Resource: func(gk schema.GroupKind) (string, bool) {
			return strings.ToLower(gk.Kind) + "s", gk.Kind == "Pod" || gk.Kind == "Service" || gk.Kind == "Namespace"
		},
	}
	client, err := a.Client()
	if err != nil {
		t.Fatal(err)
	}
	return custommetrics.New(client, time.Now)
}

func allowed(authorizer.Attributes) error { return nil }

// scaler has a metric of each type.
func scaler() *autoscalingv2.HorizontalPodAutoscaler {
	queue := autoscalingv2.MetricIdentifier{Name: "queue", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"q": "a"}}}
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{Metrics: []autoscalingv2.MetricSpec{
			{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{Name: "cpu"}},
			{Type: autoscalingv2.PodsMetricSourceType, Pods: &autoscalingv2.PodsMetricSource{Metric: queue}},
			{Type: autoscalingv2.ObjectMetricSourceType, Object: &autoscalingv2.ObjectMetricSource{
				Metric: queue, DescribedObject: autoscalingv2.CrossVersionObjectReference{APIVersion: "v1", Kind: "Service", Name: "front"},
			}},
			{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{Metric: autoscalingv2.MetricIdentifier{Name: "depth"}}},
		}},
	}
}

// answer is the fact after the adapter was asked.
func answer(t *testing.T, m *custommetrics.Metrics, h *autoscalingv2.HorizontalPodAutoscaler) string {
	t.Helper()
	if err := m.Ask(t.Context(), h, labels.SelectorFromSet(labels.Set{"app": "web"})); err != nil {
		t.Fatal(err)
	}
	value, good := m.Of(h)
	if !good {
		t.Errorf("the answer %s is not good", value)
	}
	return string(value)
}

var both = []schema.GroupVersion{{Group: "custom.metrics.k8s.io", Version: "v1beta1"}, {Group: "external.metrics.k8s.io", Version: "v1beta1"}}

// adapter answers discovery, and all else by value, which is a quantity.
func adapter(value string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		const item = `"timestamp":"2026-01-01T00:00:00Z","value":%s}`
		group, version := "custom.metrics.k8s.io", strings.Split(r.URL.Path+"///", "/")[3]
		of := func(name string) string {
			text := `{"describedObject":{"kind":"K","name":"` + name + `"},"metricName":"queue","metric":{"name":"queue"},` + fmt.Sprintf(item, value)
			return `{"kind":"MetricValueList","apiVersion":"` + group + "/" + version + `","metadata":{},"items":[` + text + `]}`
		}
		switch {
		case strings.Count(strings.TrimSuffix(r.URL.Path, "/"), "/") == 3:
			fmt.Fprint(w, `{"kind":"APIResourceList","groupVersion":"x/v1","resources":[]}`)
		case r.Header.Get("X-Remote-User") != who:
			http.Error(w, "who?", http.StatusForbidden)
		case strings.HasPrefix(r.URL.Path, "/apis/external"):
			fmt.Fprintf(w, `{"kind":"ExternalMetricValueList","apiVersion":"external.metrics.k8s.io/v1beta1","metadata":{},"items":[{"metricName":"depth","metricLabels":{},`+item+`]}`, value)
		case strings.Contains(r.URL.Path, "/pods/*/queue") && r.URL.Query().Get("labelSelector") == "app=web" && r.URL.Query().Get("metricLabelSelector") == "q=a":
			fmt.Fprint(w, of("web-0"))
		case strings.Contains(r.URL.Path, "/services/front/queue"):
			fmt.Fprint(w, of("front"))
		default:
			http.NotFound(w, r)
		}
	}
}

func TestWhatAdaptersAnswer(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"v1beta1", "v1beta2"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			c := start(t, adapter(`"1500m"`))
			c.register(t, schema.GroupVersion{Group: "custom.metrics.k8s.io", Version: version}, both[1])
			const selector = `"selector":"\u0026LabelSelector{MatchLabels:map[string]string{q: a,},MatchExpressions:[]LabelSelectorRequirement{},}"`
			const want = `[null,{"pods":{"web-0":"1500"}},{"value":"1500",` + selector + `},{"values":["1500"],"selector":"nil"}]`
			if got := answer(t, c.metrics(t, allowed), scaler()); got != want {
				t.Errorf("metrics are %s, want %s", got, want)
			}
		})
	}
}

func TestWithoutAdaptersThereAreErrors(t *testing.T) {
	t.Parallel()
	c := start(t, adapter(`"1"`))
	got := answer(t, c.metrics(t, allowed), scaler())
	for _, want := range []string{
		"no custom metrics API (custom.metrics.k8s.io) registered",
		"the server could not find the requested resource (get depth.external.metrics.k8s.io)",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("metrics are %s, want %q", got, want)
		}
	}
}

func TestNobodyAsksWhatTheyMayNot(t *testing.T) {
	t.Parallel()
	c := start(t, adapter(`"1"`))
	c.register(t, both...)
	got := answer(t, c.metrics(t, func(a authorizer.Attributes) error {
		if a.GetVerb() == "get" && a.GetResource() == "pods" && a.GetName() == "*" && a.GetSubresource() == "queue" {
			return apierrors.NewForbidden(schema.GroupResource{Group: a.GetAPIGroup(), Resource: a.GetResource()}, a.GetName(), errors.New("no"))
		}
		return nil
	}), scaler())
	if !strings.Contains(got, `pods.custom.metrics.k8s.io \"*\" is forbidden: no`) || !strings.Contains(got, `"value":"1000"`) {
		t.Errorf("metrics are %s", got)
	}
}

func TestHostileAdapters(t *testing.T) {
	t.Parallel()
	always := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(code)
			_, _ = w.Write([]byte(body))
		}
	}
	for title, tt := range map[string]struct {
		adapter http.HandlerFunc
		says    string
	}{
		"10 MB":               {always(200, `{"kind":"`+strings.Repeat("x", 10<<20)+`"}`), "the answer is longer than 1048576 bytes"},
		"no JSON":             {always(200, "<html>"), "json parse error"},
		"another kind":        {always(200, `{"kind":"Pod","apiVersion":"v1"}`), "error"},
		"a fault":             {always(500, "oops"), "an error on the server"},
		"not now":             {always(503, "later"), "the server is currently unable to handle the request"},
		"what is no number":   {adapter(`"NaN"`), "quantities must match the regular expression"},
		"what is below 0":     {adapter(`"-5"`), `"-5000"`},
		"an end in between":   {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "error"},
		"another place to go": {http.RedirectHandler("https://10.1.2.3/", http.StatusFound).ServeHTTP, "error"},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			discovery := adapter(`"1"`)
			c := start(t, func(w http.ResponseWriter, r *http.Request) {
				if strings.Count(strings.TrimSuffix(r.URL.Path, "/"), "/") == 3 {
					discovery(w, r)
					return
				}
				tt.adapter(w, r)
			})
			c.register(t, both...)
			if got := answer(t, c.metrics(t, allowed), scaler()); strings.Count(got, tt.says) < 3 {
				t.Errorf("metrics are %.2000s, want %q of each", got, tt.says)
			}
		})
	}
}

// hanging answers nothing about pods and objects.
type hanging struct {
	upstream.MetricsClient
	asked chan struct{}
	end   chan struct{}
}

func (h hanging) GetRawMetric(string, string, labels.Selector, labels.Selector) (upstream.PodMetricsInfo, time.Time, error) {
	h.asked <- struct{}{}
	<-h.end
	return nil, time.Time{}, errors.New("late")
}

func (h hanging) GetExternalMetric(string, string, labels.Selector) ([]int64, time.Time, error) {
	return []int64{1}, time.Time{}, nil
}

func TestOneAdapterThatHangsHoldsNoOtherUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := hanging{asked: make(chan struct{}, 100), end: make(chan struct{})}
		m := custommetrics.New(client, time.Now)
		one := func(uid string, i int) *autoscalingv2.HorizontalPodAutoscaler {
			h := scaler()
			h.UID, h.Spec.Metrics = types.UID(uid), h.Spec.Metrics[i:i+1]
			return h
		}
		for i := range 40 {
			go func() { _ = m.Ask(t.Context(), one(fmt.Sprint(i), 1), labels.Everything()) }()
		}
		synctest.Wait()
		if n := len(client.asked); n != 32 {
			t.Errorf("%d requests are asked at once, want 32", n)
		}
		from := time.Now()
		if got := answer(t, m, one("other", 3)); got != `[{"values":["1"],"selector":"nil"}]` || time.Since(from) != 0 {
			t.Errorf("another adapter answers %s after %s", got, time.Since(from))
		}
		if got := answer(t, m, one("more", 1)); !strings.Contains(got, "32 requests wait for answers already") || time.Since(from) != 10*time.Second {
			t.Errorf("one more is answered %s after %s", got, time.Since(from))
		}
		close(client.end)
		synctest.Wait()
	})
}

func TestAnAnswerIsGoodForOneLook(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	m := custommetrics.New(hanging{}, func() time.Time { return now })
	h := scaler()
	h.Spec.Metrics = h.Spec.Metrics[3:]
	if _, good := m.Of(h); good {
		t.Error("what nobody asked is good")
	}
	answer(t, m, h)
	now = now.Add(15 * time.Second)
	if value, good := m.Of(h); good || value == nil {
		t.Errorf("after 15 seconds the answer %s is good: %v", value, good)
	}
	h.Spec.Metrics[0].External.Metric.Name = "another"
	if value, good := m.Of(h); good || value != nil {
		t.Errorf("of other metrics the answer %s is good: %v", value, good)
	}
	h.Spec.Metrics = nil
	if value, good := m.Of(h); !good || value != nil {
		t.Errorf("of no metrics the answer is %s, good: %v", value, good)
	}
}
