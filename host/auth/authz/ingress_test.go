package authz

import (
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/host/auth/view"
)

// TestANodeReadsCertificatesOfIngressesThatAgentsAnswerFor, and
// no Secret else; what an Ingress is, only others write.
func TestANodeReadsCertificatesOfIngressesThatAgentsAnswerFor(t *testing.T) {
	t.Parallel()
	objects := nodeCluster()
	for class, controller := range map[string]string{"berth": IngressController, "nginx": "k8s.io/ingress-nginx"} {
		objects.Put(view.IngressClasses, &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: class}, Spec: networkingv1.IngressClassSpec{Controller: controller}})
		objects.Put(view.Ingresses, &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "dev", Name: class}, Spec: networkingv1.IngressSpec{
			IngressClassName: ptr.To(class), TLS: []networkingv1.IngressTLS{{SecretName: "tls-" + class}},
		}})
	}
	objects.Put(view.Ingresses, &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "dev", Name: "of-none"}, Spec: networkingv1.IngressSpec{TLS: []networkingv1.IngressTLS{{SecretName: "tls-none"}}}})
	a := New(objects, placed{objects})
	for ask, want := range map[string]bool{
		"get secrets dev/tls-berth":                      true,
		"watch secrets dev/tls-berth":                    false,
		"update secrets dev/tls-berth":                   false,
		"get secrets prod/tls-berth":                     false,
		"get secrets dev/tls-nginx":                      false,
		"get secrets dev/tls-none":                       false,
		"list ingresses.networking.k8s.io":               true,
		"watch ingressclasses.networking.k8s.io":         true,
		"update ingresses.networking.k8s.io dev/x":       false,
		"patch ingresses.networking.k8s.io/status dev/x": false,
	} {
		check(t, a, who("system:node:n1", "system:nodes"), ask, want)
	}
}
