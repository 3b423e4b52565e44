package ingress

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/nodeagent/apitest"
)

func TestOnlyIngressesOfOurClassesAreAnswered(t *testing.T) {
	t.Parallel()
	classes := []*networkingv1.IngressClass{class("berth", Controller), class("nginx", "k8s.io/ingress-nginx")}
	var all []*networkingv1.Ingress
	for _, name := range []string{"berth", "nginx", "gone"} {
		i := ingress("by-" + name)
		i.Spec.IngressClassName = &name
		all = append(all, i)
	}
	old := ingress("of-old")
	old.Annotations = map[string]string{"kubernetes.io/ingress.class": "berth"}
	var got []string
	for _, i := range Ours(append(all, old, ingress("without")), classes) {
		got = append(got, i.Name)
	}
	if want := []string{"by-berth", "of-old"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func class(name, controller string) *networkingv1.IngressClass {
	return &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.IngressClassSpec{Controller: controller}}
}

func TestAnIngressIsAnsweredWhenItComesAndNoMoreWhenItGoes(t *testing.T) {
	t.Parallel()
	at := upstream(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "here") })
	w := serve(t, map[string][]netip.AddrPort{"web": {at}}, nil)
	api := apitest.New(nil)
	ctx, cancel := context.WithCancel(t.Context())
	watched, classesWatched := api.Watched("ingresses"), api.Watched("ingressclasses")
	ended := make(chan error, 1)
	go func() { ended <- Follow(ctx, api, w.server, w.server.cfg.Log) }()
	<-watched
	<-classesWatched
	i := with(ingress("i"), "a.com", path{prefix, "/", "web"})
	i.Spec.IngressClassName = new("berth")
	if _, err := api.NetworkingV1().Ingresses("ns").Create(t.Context(), i, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := api.NetworkingV1().IngressClasses().Create(t.Context(), class("berth", Controller), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.becomes(200)
	if err := api.NetworkingV1().Ingresses("ns").Delete(t.Context(), "i", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.becomes(404)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// becomes waits until requests for a.com are answered so.
func (w *world) becomes(want int) {
	w.Helper()
	for tick, end := time.NewTicker(5*time.Millisecond), time.After(time.Minute); ; {
		code, _ := w.ask("GET", "a.com", "/", "")
		if code == want {
			tick.Stop()
			return
		}
		select {
		case <-tick.C:
		case <-end:
			w.Fatalf("answered by %d, want %d", code, want)
		}
	}
}

func TestAPortIsMeantByNameOrNumber(t *testing.T) {
	t.Parallel()
	svc := &v1.Service{Spec: v1.ServiceSpec{Ports: []v1.ServicePort{{Name: "http", Port: 80}, {Name: "admin", Port: 81}}}}
	for _, c := range []struct {
		port networkingv1.ServiceBackendPort
		want string
	}{{networkingv1.ServiceBackendPort{Name: "admin"}, "admin"}, {networkingv1.ServiceBackendPort{Number: 80}, "http"}, {networkingv1.ServiceBackendPort{Number: 82}, ""}, {networkingv1.ServiceBackendPort{}, ""}} {
		got := ""
		if p := PortOf(svc, c.port); p != nil {
			got = p.Name
		}
		if got != c.want {
			t.Errorf("%+v means %q, want %q", c.port, got, c.want)
		}
	}
}
