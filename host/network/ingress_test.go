package network_test

import (
	"slices"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/network"
	"github.com/berth-dev/berth/host/store"
)

const (
	ingresses = "ingresses.networking.k8s.io"
	classes   = "ingressclasses.networking.k8s.io"
)

func TestTheClassOfIngressesIsTheDefaultWhereThereIsNoOther(t *testing.T) {
	t.Parallel()
	other := &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: "nginx"}, Spec: networkingv1.IngressClassSpec{Controller: "k8s.io/ingress-nginx"}}
	chosen := other.DeepCopy()
	chosen.Annotations = map[string]string{networkingv1.AnnotationIsDefaultIngressClass: "true"}
	for _, c := range []struct {
		name  string
		asked bool
		has   *networkingv1.IngressClass
		made  bool
		first string
	}{
		{"where agents do not answer", false, nil, false, ""},
		{"where there is none", true, nil, true, "true"},
		{"where none is the default", true, other, true, "true"},
		{"where another is the default", true, chosen, true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			playWith(t, network.Config{Ingress: c.asked}, func(w *world) {
				if c.has != nil {
					w.create(classes, "", c.has.DeepCopy())
				}
			}, func(w *world) {
				if w.has(classes, "berth") != c.made {
					w.Fatalf("there is a class berth: %v", !c.made)
				}
				if !c.made {
					return
				}
				got := get[*networkingv1.IngressClass](w, classes, "", "berth")
				if got.Spec.Controller != "berth.dev/ingress" || got.Annotations[networkingv1.AnnotationIsDefaultIngressClass] != c.first {
					w.Errorf("%+v", got)
				}
			})
		})
	}
}

// node has an address, and says of itself what is true of it.
func node(name, address string, conditions ...v1.NodeConditionType) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1.NodeStatus{Addresses: []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: address}}}}
	for _, c := range conditions {
		n.Status.Conditions = append(n.Status.Conditions, v1.NodeCondition{Type: c, Status: v1.ConditionTrue})
	}
	return n
}

func TestIngressesSayWhereTheyAreAnswered(t *testing.T) {
	t.Parallel()
	playWith(t, network.Config{Ingress: true}, nil, func(w *world) {
		synctest.Wait()
		w.create(classes, "", &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: "nginx"}, Spec: networkingv1.IngressClassSpec{Controller: "k8s.io/ingress-nginx"}})
		for _, class := range []string{"berth", "nginx"} {
			w.create(ingresses, "ns", &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: class}, Spec: networkingv1.IngressSpec{
				IngressClassName: &class,
				DefaultBackend:   &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "web", Port: networkingv1.ServiceBackendPort{Number: 80}}},
			}})
		}
		w.told("berth")
		for _, n := range []*v1.Node{
			node("a", "192.0.2.2", v1.NodeReady, "IngressServing"), node("b", "192.0.2.1", v1.NodeReady, "IngressServing"),
			node("c", "192.0.2.3", v1.NodeReady), node("d", "192.0.2.4", "IngressServing"),
		} {
			w.put(n)
		}
		w.told("berth", "192.0.2.1", "192.0.2.2")
		w.told("nginx")
		w.put(node("a", "192.0.2.2", "IngressServing")) // it is not ready any more
		w.told("berth", "192.0.2.1")
		w.put(node("b", "192.0.2.1", v1.NodeReady)) // it answers no more
		w.told("berth")
		w.put(node("a", "192.0.2.5", v1.NodeReady, "IngressServing")) // by another address
		w.told("berth", "192.0.2.5")
		w.remove("nodes", "", "a")
		w.told("berth")
	})
}

// put writes a node as its agent does.
func (w *world) put(n *v1.Node) {
	w.Helper()
	if !w.has("nodes", n.Name) {
		w.create("nodes", "", n.DeepCopy())
	}
	_, err := w.reg.Modify(w.Context(), registry.On("nodes", "", n.Name).Sub("status"), func(old store.Object) (store.Object, error) {
		next := old.(*v1.Node).DeepCopy()
		next.Status = n.Status
		return next, nil
	})
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) told(name string, want ...string) {
	w.Helper()
	var got []string
	for _, at := range get[*networkingv1.Ingress](w, ingresses, "ns", name).Status.LoadBalancer.Ingress {
		got = append(got, at.IP)
	}
	if !slices.Equal(got, want) {
		w.Errorf("%s is told to be answered at %v, want %v", name, got, want)
	}
}
