package controllertest

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
)

// Clientset is a fake one that holds some objects. It keeps no managed fields: for
// them fake.NewClientset makes a mapper of all kinds with each write, which is most
// of what comparing with upstream's controllers took.
func Clientset(objects ...runtime.Object) *fake.Clientset {
	return fake.NewSimpleClientset(objects...)
}
