package authz

import (
	"context"

	"github.com/berth-dev/berth/host/auth/view"

	networkingv1 "k8s.io/api/networking/v1"
)

// IngressController is the one that classes of Ingresses name whose Ingresses node
// agents answer for.
const IngressController = "berth.dev/ingress"

// IngressClassOf is the class that an Ingress names, perhaps in the way of old.
func IngressClassOf(i *networkingv1.Ingress) string {
	if i.Spec.IngressClassName != nil {
		return *i.Spec.IngressClassName
	}
	return i.Annotations["kubernetes.io/ingress.class"]
}

// certifies tells whether a Secret has the certificate of an Ingress that node
// agents answer for.
func (n *nodeRules) certifies(ctx context.Context, namespace, name string) bool {
	all, err := view.List[*networkingv1.Ingress](ctx, n.objects, view.Ingresses, namespace)
	if err != nil {
		return false
	}
	for _, i := range all {
		for t := range i.Spec.TLS {
			if i.Spec.TLS[t].SecretName == name && n.answered(ctx, i) {
				return true
			}
		}
	}
	return false
}

func (n *nodeRules) answered(ctx context.Context, i *networkingv1.Ingress) bool {
	class, err := view.Get[*networkingv1.IngressClass](ctx, n.objects, view.IngressClasses, "", IngressClassOf(i))
	return err == nil && class.Spec.Controller == IngressController
}
