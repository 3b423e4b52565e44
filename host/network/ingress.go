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

// ingressChanged tells an Ingress where it is answered.
func (n *Network) ingressChanged(ctx context.Context, e store.Event) {
	if i, ok := e.Object.(*networkingv1.Ingress); ok && e.Type != store.Deleted {
		n.failed(ctx, "tell where an Ingress is answered", n.tell(ctx, i))
	}
}

// classChanged tells all Ingresses: they may be agents' to answer now.
func (n *Network) classChanged(ctx context.Context, _ store.Event) {
	n.failed(ctx, "tell where Ingresses are answered", n.tellAll(ctx))
}

// nodeChanged tells them, where others answer for them than before.
func (n *Network) nodeChanged(ctx context.Context, _ store.Event) {
	at := n.answering()
	if slices.Equal(at, n.answered) {
		return
	}
	err := n.tellAll(ctx)
	n.failed(ctx, "tell where Ingresses are answered", err)
	if n.answered = at; err != nil {
		n.answered = nil
	}
}

func (n *Network) tellAll(ctx context.Context) error {
	list, err := n.store.List(ingresses, "", store.ListOptions{})
	if err != nil {
		return err
	}
	for _, obj := range list.Items {
		if i, ok := obj.(*networkingv1.Ingress); ok {
			err = errors.Join(err, n.tell(ctx, i))
		}
	}
	return err
}

// answering are the addresses of the nodes that are ready and answer.
func (n *Network) answering() []string {
	list, err := n.store.List(nodes, "", store.ListOptions{})
	if err != nil {
		return nil
	}
	all := []string{}
	for _, obj := range list.Items {
		node := obj.(*v1.Node)
		if !holds(node, serving) || !holds(node, v1.NodeReady) {
			continue
		}
		all = append(all, addressOf(node)...)
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
func (n *Network) tell(ctx context.Context, i *networkingv1.Ingress) error {
	obj, ok := n.store.Get(store.Key{Resource: classes, Name: authz.IngressClassOf(i)})
	if !ok || obj.(*networkingv1.IngressClass).Spec.Controller != authz.IngressController {
		return nil
	}
	if apiequality.Semantic.DeepEqual(i.Status.LoadBalancer, n.answeredAt()) {
		return nil
	}
	_, err := n.Registry.Modify(ctx, registry.On(ingresses, i.Namespace, i.Name).Sub("status"), func(old store.Object) (store.Object, error) {
		next := old.(*networkingv1.Ingress).DeepCopy()
		next.Status.LoadBalancer = n.answeredAt() // as of now: another may have told it since
		return next, nil
	})
	return ignoreGone(err)
}

func (n *Network) answeredAt() (s networkingv1.IngressLoadBalancerStatus) {
	for _, address := range n.answering() {
		s.Ingress = append(s.Ingress, networkingv1.IngressLoadBalancerIngress{IP: address})
	}
	return s
}
