package api_test

import (
	"strings"
	"testing"

	"github.com/berth-dev/berth/host/api/apitest"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestANetworkPolicyIsDefaultedAsByKubernetes(t *testing.T) {
	t.Parallel()
	policies := client(t, apitest.Start(t), "").NetworkingV1().NetworkPolicies("default")
	made, err := policies.Create(t.Context(), &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: networkingv1.NetworkPolicySpec{
			Egress:  []networkingv1.NetworkPolicyEgressRule{{}},
			Ingress: []networkingv1.NetworkPolicyIngressRule{{Ports: []networkingv1.NetworkPolicyPort{{Port: new(intstr.FromInt32(80))}}}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := made.Spec.PolicyTypes; len(got) != 2 || got[0] != networkingv1.PolicyTypeIngress || got[1] != networkingv1.PolicyTypeEgress {
		t.Errorf("policyTypes = %v, want both", got)
	}
	if p := made.Spec.Ingress[0].Ports[0].Protocol; p == nil || *p != "TCP" {
		t.Errorf("protocol = %v, want TCP", p)
	}
	made.Spec.Egress = nil
	if made, err = policies.Update(t.Context(), made, metav1.UpdateOptions{}); err != nil || made.Generation != 2 {
		t.Errorf("after a change: generation %d, %v; want 2", made.Generation, err)
	}
}

func TestAWrongNetworkPolicyIsRefused(t *testing.T) {
	t.Parallel()
	policies := client(t, apitest.Start(t), "").NetworkingV1().NetworkPolicies("default")
	port := func(p networkingv1.NetworkPolicyPort) networkingv1.NetworkPolicySpec {
		return networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{Ports: []networkingv1.NetworkPolicyPort{p}}}}
	}
	peer := func(p networkingv1.NetworkPolicyPeer) networkingv1.NetworkPolicySpec {
		return networkingv1.NetworkPolicySpec{Egress: []networkingv1.NetworkPolicyEgressRule{{To: []networkingv1.NetworkPolicyPeer{p}}}}
	}
	for want, spec := range map[string]networkingv1.NetworkPolicySpec{
		"must be between 1 and 65535":                 port(networkingv1.NetworkPolicyPort{Port: new(intstr.FromInt32(0))}),
		"must be greater than or equal to `port`":     port(networkingv1.NetworkPolicyPort{Port: new(intstr.FromInt32(90)), EndPort: new(int32(80))}),
		"may not be specified when `port` is not":     port(networkingv1.NetworkPolicyPort{EndPort: new(int32(80))}),
		"may not be specified when `port` is non":     port(networkingv1.NetworkPolicyPort{Port: new(intstr.FromString("web")), EndPort: new(int32(80))}),
		`supported values: "TCP", "UDP", "SCTP"`:      port(networkingv1.NetworkPolicyPort{Protocol: new(corev1.Protocol("ICMP"))}),
		"must specify a peer":                         peer(networkingv1.NetworkPolicyPeer{}),
		"must be a strict subset of `cidr`":           peer(networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/8", Except: []string{"11.0.0.0/16"}}}),
		"may not specify both ipBlock and another":    peer(networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{}, IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/8"}}),
		"must be a valid CIDR value":                  peer(networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0"}}),
		"spec.policyTypes: Invalid value":             {PolicyTypes: []networkingv1.PolicyType{"Ingress", "Egress", "Ingress"}},
		"not a valid selector operator":               {PodSelector: metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}},
		"spec.podSelector.matchExpressions[0].values": {PodSelector: metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "In"}}}},
	} {
		_, err := policies.Create(t.Context(), &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: spec}, metav1.CreateOptions{})
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	// More requirements than any object may have parts.
	huge := networkingv1.NetworkPolicySpec{}
	for range 200_000 {
		huge.PodSelector.MatchExpressions = append(huge.PodSelector.MatchExpressions, metav1.LabelSelectorRequirement{Key: "a", Operator: "Exists"})
	}
	if _, err := policies.Create(t.Context(), &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: huge}, metav1.CreateOptions{}); err == nil {
		t.Error("a selector of 200,000 requirements is taken")
	}
}
