package network

import (
	"context"
	"errors"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/auth/authz"
	"github.com/berth-dev/berth/host/store"
)

const (
	nodes     = "nodes"
	ingresses = "ingresses.networking.k8s.io"
	classes   = "ingressclasses.networking.k8s.io"

	// ownClass is the class of Ingresses that node agents answer for.
	ownClass = "berth"
	// serving is the condition of a node whose agent answers for Ingresses.
	serving v1.NodeConditionType = "IngressServing"
)

// ownIngressClass makes the class of Ingresses that agents answer for, the default
// one where there is no other.
func (n *Network) ownIngressClass(ctx context.Context) error {
	if _, ok := n.store.Get(store.Key{Resource: classes, Name: ownClass}); ok || !n.Ingress {
		return nil
	}
	list, err := n.store.List(classes, "", store.ListOptions{})
	if err != nil {
		return err
	}
	c := &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: ownClass}, Spec: networkingv1.IngressClassSpec{Controller: authz.IngressController}}
	if !slices.ContainsFunc(list.Items, func(o store.Object) bool {
		return o.GetAnnotations()[networkingv1.AnnotationIsDefaultIngressClass] == "true"
	}) {
		c.Annotations = map[string]string{networkingv1.AnnotationIsDefaultIngressClass: "true"}
	}
	_, err = n.Registry.Create(ctx, registry.On(classes, "", ""), c)
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// answers tells Ingresses where they are answered.
type answers struct {
	*Network

	mu sync.Mutex
	// at are the addresses of each node that is ready and answers.
	at map[string][]string
}

// ingressChanged tells an Ingress where it is answered.
func (a *answers) ingressChanged(ctx context.Context, e store.Event) {
	if i, ok := e.Object.(*networkingv1.Ingress); ok && e.Type != store.Deleted {
		a.failed(ctx, "tell where an Ingress is answered", a.tell(ctx, i))
	}
}

// classChanged tells all Ingresses: they may be agents' to answer now.
func (a *answers) classChanged(ctx context.Context, _ store.Event) {
	a.failed(ctx, "tell where Ingresses are answered", a.tellAll(ctx))
}

// nodeChanged tells them, where others answer for them than before.
func (a *answers) nodeChanged(ctx context.Context, e store.Event) {
	if node, ok := e.Object.(*v1.Node); ok && a.take(node, e.Type == store.Deleted) {
		a.failed(ctx, "tell where Ingresses are answered", a.tellAll(ctx))
	}
}

// take notes where a node answers, and says whether that is new.
func (a *answers) take(node *v1.Node, gone bool) bool {
	var at []string
	if !gone && holds(node, serving) && holds(node, v1.NodeReady) {
		at = addressOf(node)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if slices.Equal(at, a.at[node.Name]) {
		return false
	}
	if delete(a.at, node.Name); len(at) > 0 {
		a.at[node.Name] = at
	}
	return true
}

func (a *answers) tellAll(ctx context.Context) error {
	list, err := a.store.List(ingresses, "", store.ListOptions{})
	if err != nil {
		return err
	}
	for _, obj := range list.Items {
		if i, ok := obj.(*networkingv1.Ingress); ok {
			err = errors.Join(err, a.tell(ctx, i))
		}
	}
	return err
}

// answering are the addresses of the nodes that are ready and answer.
func (a *answers) answering() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := []string{}
	for _, at := range a.at {
		all = append(all, at...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func holds(node *v1.Node, what v1.NodeConditionType) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c v1.NodeCondition) bool {
		return c.Type == what && c.Status == v1.ConditionTrue
	})
}

// addressOf is where others reach a node, by its public addresses if it has some.
func addressOf(node *v1.Node) (found []string) {
	for _, kind := range []v1.NodeAddressType{v1.NodeExternalIP, v1.NodeInternalIP} {
		for _, a := range node.Status.Addresses {
			if a.Type == kind {
				found = append(found, a.Address)
			}
		}
		if len(found) > 0 {
			break
		}
	}
	return found
}

// tell writes the addresses into the status of an Ingress, if it is answered by
// agents.
func (a *answers) tell(ctx context.Context, i *networkingv1.Ingress) error {
	obj, ok := a.store.Get(store.Key{Resource: classes, Name: authz.IngressClassOf(i)})
	if !ok || obj.(*networkingv1.IngressClass).Spec.Controller != authz.IngressController {
		return nil
	}
	if apiequality.Semantic.DeepEqual(i.Status.LoadBalancer, a.answeredAt()) {
		return nil
	}
	_, err := a.Registry.Modify(ctx, registry.On(ingresses, i.Namespace, i.Name).Sub("status"), func(old store.Object) (store.Object, error) {
		next := old.(*networkingv1.Ingress).DeepCopy()
		next.Status.LoadBalancer = a.answeredAt() // as of now: another may have told it since
		return next, nil
	})
	return ignoreGone(err)
}

func (a *answers) answeredAt() (s networkingv1.IngressLoadBalancerStatus) {
	for _, address := range a.answering() {
		s.Ingress = append(s.Ingress, networkingv1.IngressLoadBalancerIngress{IP: address})
	}
	return s
}
