package aggregate_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/host/api/aggregate"
	"github.com/berth-dev/berth/host/api/apitest"
	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/auth/ca"
	"github.com/berth-dev/berth/host/auth/view"
	"github.com/berth-dev/berth/host/polltest"
	"github.com/berth-dev/berth/host/store"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

const (
	apiServices = "apiservices.apiregistration.k8s.io"
	name        = "v1beta1.things.example.com"
	root        = "/apis/things.example.com/v1beta1"
)

// cluster is an API with a backend behind the service adapter.
type cluster struct {
	*apitest.Server
	authority *ca.Authority
	// backend answers where every endpoint leads.
	backend *httptest.Server
}

// start runs both; the aggregator works until the test ends.
func start(t *testing.T, names []string, backend http.HandlerFunc) *cluster {
	t.Helper()
	authority, err := ca.Open(t.TempDir(), "backend", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue(ca.Subject{Name: "adapter", DNS: names})
	if err != nil {
		t.Fatal(err)
	}
	cert, err := pair.TLS()
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{authority: authority, backend: httptest.NewUnstartedServer(backend)}
	c.backend.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	c.backend.Config.ErrorLog = nil
	c.backend.StartTLS()
	t.Cleanup(func() { c.backend.CloseClientConnections(); c.backend.Close() })
	var a *aggregate.Aggregator
	c.Server = apitest.Start(t, apitest.With(func(p *apitest.Parts) {
		a = aggregate.New(aggregate.Config{Objects: view.Of(p.Registry.Store), Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			if address != "10.1.2.3:8443" {
				return nil, fmt.Errorf("dialed %s", address)
			}
			return (&net.Dialer{}).DialContext(ctx, network, c.backend.Listener.Addr().String())
		}})
		p.API.Aggregate = a
	}))
	a.Registry = c.Registry
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
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

// register makes the service, its endpoints and the APIService.
func (c *cluster) register(t *testing.T, change func(*apiregistrationv1.APIServiceSpec)) {
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
	c.create(t, apiServices, c.apiService(change))
}

func (c *cluster) apiService(change func(*apiregistrationv1.APIServiceSpec)) *apiregistrationv1.APIService {
	port := int32(443)
	s := &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: "things.example.com", Version: "v1beta1", GroupPriorityMinimum: 100, VersionPriority: 10, CABundle: c.authority.PEM(),
			Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: "adapter", Port: &port},
		},
	}
	if change != nil {
		change(&s.Spec)
	}
	return s
}

// condition is Available as "Status Reason".
func (c *cluster) condition(name string) (text, message string) {
	o, ok := c.Store.Get(store.Key{Resource: apiServices, Name: name})
	if !ok {
		return "", ""
	}
	for _, is := range o.(*apiregistrationv1.APIService).Status.Conditions {
		return string(is.Status) + " " + is.Reason, is.Message
	}
	return "", ""
}

func (c *cluster) becomes(t *testing.T, want string) (message string) {
	t.Helper()
	polltest.Until(t, name+" is "+want, func() (met bool) {
		var got string
		got, message = c.condition(name)
		return got == want
	})
	return message
}

func (c *cluster) get(t *testing.T, path string, header http.Header) (code int, body string) {
	t.Helper()
	client, err := rest.HTTPClientFor(c.Config(""))
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = header
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(data)
}

// things serves one resource, and tells who asked.
func things(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if strings.TrimSuffix(r.URL.Path, "/") == root {
		_ = json.NewEncoder(w).Encode(metav1.APIResourceList{GroupVersion: "things.example.com/v1beta1", APIResources: []metav1.APIResource{
			{Name: "things", SingularName: "thing", Namespaced: true, Kind: "Thing", Verbs: []string{"get", "list"}},
			{Name: "pods/queue_length", Namespaced: true, Kind: "MetricValueList", Verbs: []string{"get"}},
		}})
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"path": r.URL.RequestURI(), "user": r.Header["X-Remote-User"], "groups": r.Header["X-Remote-Group"], "extra": r.Header["X-Remote-Extra-Scopes"],
	})
}

var sound = []string{"adapter.default.svc"}

func TestRequestsGoToTheBackendInTheNameOfTheirUser(t *testing.T) {
	t.Parallel()
	c := start(t, sound, things)
	c.register(t, nil)
	c.becomes(t, "True Passed")
	code, body := c.get(t, root+"/namespaces/default/things?limit=3", http.Header{
		"X-Remote-User": {"mallory"}, "X-Remote-Group": {"system:masters"}, "X-Remote-Extra-Scopes": {"all"}, "Authorization": {"Bearer secret"},
	})
	want := `{"extra":null,"groups":["system:masters","system:authenticated"],"path":"` + root + `/namespaces/default/things?limit=3","user":["system:berth"]}`
	if code != 200 || strings.TrimSpace(body) != want {
		t.Errorf("the backend was asked as %d %s, want %s", code, body, want)
	}
}

func TestDiscoveryListsWhatABackendServes(t *testing.T) {
	t.Parallel()
	c := start(t, sound, things)
	c.register(t, nil)
	c.becomes(t, "True Passed")
	for mode, legacy := range map[string]bool{"aggregated": false, "legacy": true} {
		client := discovery.NewDiscoveryClientForConfigOrDie(c.Config(""))
		client.UseLegacyDiscovery = legacy
		groups, lists, err := client.ServerGroupsAndResources()
		if err != nil {
			t.Errorf("%s discovery: %v", mode, err)
		}
		if n := len(groups); n == 0 || groups[n-1].Name != "things.example.com" {
			t.Errorf("%s discovery lists %v", mode, groups)
		}
		found := false
		for _, l := range lists {
			for _, r := range l.APIResources {
				found = found || l.GroupVersion == "things.example.com/v1beta1" && r.Name == "things" && r.Namespaced && r.Kind == "Thing"
			}
		}
		if !found {
			t.Errorf("%s discovery does not list things", mode)
		}
	}
	if code, body := c.get(t, "/apis/things.example.com", nil); code != 200 || !strings.Contains(body, `"preferredVersion":{"groupVersion":"things.example.com/v1beta1"`) {
		t.Errorf("the group answers %d %s", code, body)
	}
}

func TestABackendThatIsAwayIsUnavailableAndStale(t *testing.T) {
	t.Parallel()
	c := start(t, sound, things)
	c.create(t, apiServices, c.apiService(nil))
	if message := c.becomes(t, "False ServiceNotFound"); message != `service/adapter in "default" is not present` {
		t.Error(message)
	}
	if code, body := c.get(t, root+"/things", nil); code != 503 || body != "service unavailable\n" {
		t.Errorf("it answers %d %q", code, body)
	}
	_, body := c.get(t, "/apis", http.Header{"Accept": {"application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}})
	if !strings.Contains(body, `"freshness":"Stale"`) {
		t.Error("discovery does not say that the group is stale")
	}
	if _, err := c.Registry.Create(t.Context(), registry.On("services", "default", "adapter"), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "adapter"},
		Spec:       corev1.ServiceSpec{ClusterIP: "None", ClusterIPs: []string{"None"}, Ports: []corev1.ServicePort{{Port: 80}}},
	}); err != nil {
		t.Fatal(err)
	}
	c.becomes(t, "False ServicePortError")
}

func TestHostileBackendsAreNotAvailableAndHoldNobodyUp(t *testing.T) {
	t.Parallel()
	for title, tt := range map[string]struct {
		names   []string
		backend http.HandlerFunc
		says    string
	}{
		"one that never answers": {sound, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "context deadline exceeded"},
		"one whose list has no end": {sound, func(w http.ResponseWriter, _ *http.Request) {
			for page := bytes.Repeat([]byte(" "), 1<<20); ; {
				if _, err := w.Write(page); err != nil {
					return
				}
			}
		}, "the list of resources is longer than 4194304 bytes"},
		"one that leads elsewhere":          {sound, http.RedirectHandler("https://10.1.2.3/", http.StatusFound).ServeHTTP, "bad status"},
		"one with another's certificate":    {[]string{"other.default.svc"}, things, "certificate is valid for other.default.svc"},
		"one that tells what is not a list": {sound, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, "invalid character"},
		"one that panics":                   {sound, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			c := start(t, tt.names, tt.backend)
			c.register(t, nil)
			if code, _ := c.get(t, "/apis", nil); code != 200 {
				t.Errorf("discovery answers %d", code)
			}
			if message := c.becomes(t, "False FailedDiscoveryCheck"); !strings.Contains(message, tt.says) {
				t.Errorf("the condition says %q, want %q", message, tt.says)
			}
		})
	}
}

func TestWhatBerthServesIsNotGivenAway(t *testing.T) {
	t.Parallel()
	c := start(t, sound, things)
	polltest.Until(t, "v1.apps is there", func() bool { got, _ := c.condition("v1.apps"); return got == "True Local" })
	key := store.Key{Resource: apiServices, Name: "v1.apps"}
	_, err := c.Registry.Modify(t.Context(), registry.On(apiServices, "", "v1.apps"), func(o store.Object) (store.Object, error) {
		next := o.DeepCopyObject().(*apiregistrationv1.APIService)
		next.Spec.Service, next.Spec.InsecureSkipTLSVerify = c.apiService(nil).Spec.Service, true
		return next, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if code, body := c.get(t, "/apis/apps/v1/namespaces/default/deployments", nil); code != 200 || !strings.Contains(body, "DeploymentList") {
		t.Errorf("deployments are %d %s", code, body)
	}
	polltest.Until(t, "v1.apps is local again", func() bool {
		o, ok := c.Store.Get(key)
		return ok && o.(*apiregistrationv1.APIService).Spec.Service == nil
	})
}

// TestNamesDoNotLeadToTheHostItself: a Service may be a name for anything.
func TestNamesDoNotLeadToTheHostItself(t *testing.T) {
	t.Parallel()
	c := start(t, sound, things)
	a := aggregate.New(aggregate.Config{Objects: view.Of(c.Store), Registry: c.Registry})
	connection, err := a.Dial(t.Context(), "tcp", c.backend.Listener.Addr().String())
	if err == nil {
		_ = connection.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "address 127.0.0.1 not allowed") {
		t.Errorf("the loopback was dialed: %v", err)
	}
}
