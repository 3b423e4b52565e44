package isolation

import (
	"fmt"
	"net/netip"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/berth-dev/berth/nodeagent/policy"
)

// BenchmarkPolicies: 1,000 policies, of which 100 select each of a machine's 100
// pods, with 5,000 pods elsewhere. All from nothing, then one pod elsewhere that
// changes its labels, and one here, each until the kernel has it.
func BenchmarkPolicies(b *testing.B) {
	bed := newBed(b, 0)
	fill := func() *policy.Book {
		book := policy.NewBook()
		for ns := range 10 {
			name := fmt.Sprint("ns", ns)
			book.PutNamespace(name, map[string]string{"ns": name}, true)
			for i := range 100 {
				at := types.NamespacedName{Namespace: name, Name: fmt.Sprint("p", i)}
				book.PutPolicy(at, &networkingv1.NetworkPolicy{
					ObjectMeta: metav1.ObjectMeta{Namespace: at.Namespace, Name: at.Name},
					Spec: networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{
						From:  []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprint(i)}}, NamespaceSelector: &metav1.LabelSelector{}}},
						Ports: []networkingv1.NetworkPolicyPort{{Port: new(intstr.FromInt32(int32(8000 + i)))}},
					}}},
				})
			}
			for i := range 10 {
				book.Put(fmt.Sprint("own", ns, i), here(ns, i, "x"), true)
			}
		}
		for i := range 5000 {
			book.Put(fmt.Sprint("far", i), there(i, i), false)
		}
		return book
	}
	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			if err := bed.kernel.Filter(fill().Change(), true); err != nil {
				b.Fatal(err)
			}
		}
	})
	book := fill()
	if err := bed.kernel.Filter(book.Change(), true); err != nil {
		b.Fatal(err)
	}
	n := 0
	for name, change := range map[string]func(){
		"a pod elsewhere": func() { book.Put("far7", there(7, n), false) },
		"a pod here":      func() { book.Put("own77", here(7, 7, fmt.Sprint(n)), true) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				n++
				change()
				if err := bed.kernel.Filter(book.Change(), false); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+", worked out alone", func(b *testing.B) {
			for b.Loop() {
				n++
				change()
				book.Change()
			}
		})
		if err := bed.kernel.Filter(fill().Change(), true); err != nil {
			b.Fatal(err)
		}
		book = fill()
		book.Change()
	}
}

func here(ns, i int, app string) *policy.Pod {
	return &policy.Pod{Namespace: fmt.Sprint("ns", ns), Name: fmt.Sprint("own", i), Labels: map[string]string{"app": app}, IPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 99, 1, byte(10 + ns*10 + i)})}}
}

func there(i, app int) *policy.Pod {
	return &policy.Pod{Namespace: fmt.Sprint("ns", i%10), Name: fmt.Sprint("far", i), Labels: map[string]string{"app": fmt.Sprint(app % 100)}, IPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 100, byte(i >> 8), byte(i)})}}
}
