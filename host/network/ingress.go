package network

import (
	"context"
	"errors"
	"slices"

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

// entrances are where Ingresses are answered.
type entrances struct {
	net *Network
	// answered is by which addresses nodes did last; it is the goroutine's that
	// follows nodes.
	answered map[string][]string
}

// ingressChanged tells an Ingress where it is answered.
func (e *entrances) ingressChanged(ctx context.Context, change store.Event) {
	if i, ok := change.Object.(*networkingv1.Ingress); ok && change.Type != store.Deleted {
		e.net.failed(ctx, "tell where an Ingress is answered", e.tell(ctx, i))
	}
}

// classChanged tells all Ingresses: they may be agents' to answer now.
func (e *entrances) classChanged(ctx context.Context, _ store.Event) {
	e.net.failed(ctx, "tell where Ingresses are answered", e.tellAll(ctx))
}

// nodeChanged tells them, where a node answers for them as it did not before: nodes
// change all the time, and most by nothing that matters here.
func (e *entrances) nodeChanged(ctx context.Context, change store.Event) {
	node, ok := change.Object.(*v1.Node)
	if !ok {
		return
	}
	var at []string
	if change.Type != store.Deleted {
		at = answersAt(node)
	}
	if slices.Equal(at, e.answered[node.Name]) {
		return
	}
	e.answered[node.Name] = at
	if len(at) == 0 {
		delete(e.answered, node.Name)
	}
	e.net.failed(ctx, "tell where Ingresses are answered", e.tellAll(ctx))
}

// answersAt are the addresses of a node, if it is ready and answers.
func answersAt(node *v1.Node) []string {
	if !holds(node, serving) || !holds(node, v1.NodeReady) {
		return nil
	}
	return addressOf(node)
}

func (e *entrances) tellAll(ctx context.Context) error {
	list, err := e.net.store.List(ingresses, "", store.ListOptions{})
	if err != nil {
		return err
	}
	for _, obj := range list.Items {
		if i, ok := obj.(*networkingv1.Ingress); ok {
			err = errors.Join(err, e.tell(ctx, i))
		}
	}
	return err
}

// answering are the addresses of all nodes that do.
func (e *entrances) answering() []string {
	list, err := e.net.store.List(nodes, "", store.ListOptions{})
	if err != nil {
		return nil
	}
	all := []string{}
	for _, obj := range list.Items {
		all = append(all, answersAt(obj.(*v1.Node))...)
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
func (e *entrances) tell(ctx context.Context, i *networkingv1.Ingress) error {
	obj, ok := e.net.store.Get(store.Key{Resource: classes, Name: authz.IngressClassOf(i)})
	if !ok || obj.(*networkingv1.IngressClass).Spec.Controller != authz.IngressController {
		return nil
	}
	if apiequality.Semantic.DeepEqual(i.Status.LoadBalancer, e.answeredAt()) {
		return nil
	}
	_, err := e.net.Registry.Modify(ctx, registry.On(ingresses, i.Namespace, i.Name).Sub("status"), func(old store.Object) (store.Object, error) {
		next := old.(*networkingv1.Ingress).DeepCopy()
		next.Status.LoadBalancer = e.answeredAt() // as of now: another may have told it since
		return next, nil
	})
	return ignoreGone(err)
}

func (e *entrances) answeredAt() (s networkingv1.IngressLoadBalancerStatus) {
	for _, address := range e.answering() {
		s.Ingress = append(s.Ingress, networkingv1.IngressLoadBalancerIngress{IP: address})
	}
	return s
}
