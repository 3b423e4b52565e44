package main

import (
	"encoding/json"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-dev/berth/nodeagent/reach"
)

// withAddress makes a pod that has an address, as an agent would report it.
func withAddress(t *testing.T, client kubernetes.Interface, name, app, ip string, ready bool) {
	t.Helper()
	p := onePod(name)
	p.Labels = map[string]string{"app": app}
	pods := client.CoreV1().Pods("default")
	if _, err := pods.Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, name+" is bound", func() bool {
		has, err := pods.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || has.Spec.NodeName == "" {
			return false
		}
		status := v1.ConditionFalse
		if ready {
			status = v1.ConditionTrue
		}
		has.Status.Phase, has.Status.PodIP, has.Status.PodIPs = v1.PodRunning, ip, []v1.PodIP{{IP: ip}}
		has.Status.Conditions = append(has.Status.Conditions, v1.PodCondition{Type: v1.PodReady, Status: status})
		_, err = pods.UpdateStatus(t.Context(), has, metav1.UpdateOptions{})
		return err == nil
	})
}

func TestExplainTellsWhoAnswersAServiceAndWhoRefuses(t *testing.T) {
	t.Parallel()
	kubeconfig := runHost(t)
	client := schedulable(t, kubeconfig, 1, 0)
	withAddress(t, client, "asks", "shell", "10.0.0.1", true)
	withAddress(t, client, "web-1", "web", "10.0.0.2", true)
	withAddress(t, client, "web-2", "web", "10.0.0.3", false)
	svc := &v1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: v1.ServiceSpec{
		Type: v1.ServiceTypeNodePort, Selector: map[string]string{"app": "web"}, Ports: []v1.ServicePort{{Port: 80}},
	}}
	svc, err := client.CoreV1().Services("default").Create(t.Context(), svc, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	lost := &v1.Service{ObjectMeta: metav1.ObjectMeta{Name: "lost"}, Spec: v1.ServiceSpec{Selector: map[string]string{"app": "nobody"}, Ports: []v1.ServicePort{{Port: 80}}}}
	if _, err := client.CoreV1().Services("default").Create(t.Context(), lost, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var out string
	eventually(t, "the service has its endpoints", func() bool {
		out = mustBerth(t, "explain", "service", "web", "--kubeconfig", kubeconfig)
		return strings.Contains(out, "10.0.0.2:80 pod web-1 on n0: answers") && strings.Contains(out, "10.0.0.3:80")
	})
	for _, want := range []string{
		"Service default/web (NodePort), as node n0 forwards it", svc.Spec.ClusterIP + ":80 TCP: to 10.0.0.2:80", "of each node TCP: to 10.0.0.2:80",
		"10.0.0.3:80 pod web-2 on n0: does not: its pod is not ready",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("explain service does not say %q:\n%s", want, out)
		}
	}
	if out := mustBerth(t, "explain", "svc/lost", "--kubeconfig", kubeconfig); !strings.Contains(out, "refused, as nobody serves it") || !strings.Contains(out, "no pod of namespace default has its labels: app=nobody") {
		t.Errorf("of a service of nobody: %s", out)
	}

	way := func(to string) (w reach.Way) {
		t.Helper()
		out := mustBerth(t, "explain", "pod", "asks", "--to", to, "-o", "json", "--kubeconfig", kubeconfig)
		if err := json.Unmarshal([]byte(out), &w); err != nil {
			t.Fatal(err)
		}
		return w
	}
	for _, to := range []string{"web:80", "web.default:80", "web.default.svc.cluster.local:80", svc.Spec.ClusterIP + ":80", "10.0.0.2:80", "pod/web-1:80", "service/web:80", "svc/web.default:80/tcp"} {
		if w := way(to); !w.Arrives || len(w.Ends) != 1 || w.Ends[0].Pod != "default/web-1" {
			t.Errorf("--to %s: %+v", to, w)
		}
	}
	for to, step := range map[string]string{"web:81": "Service", "web:80/UDP": "Service", "lost:80": "Endpoints"} {
		if w := way(to); w.Arrives || w.StopsAt != step {
			t.Errorf("--to %s stops at %q, want %s: %+v", to, w.StopsAt, step, w)
		}
	}
	// Policies on both sides.
	policies := client.NetworkingV1().NetworkPolicies("default")
	only := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "only-shops"}, Spec: networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		Ingress:     []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "shop"}}}}}},
	}}
	if _, err := policies.Create(t.Context(), only, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w := way("web:80")
	if w.Arrives || w.StopsAt != "Policy" || len(w.Ends) != 1 || len(w.Ends[0].RefusedBy) != 1 || w.Ends[0].RefusedBy[0] != "ingress default/only-shops" {
		t.Errorf("refused by a policy: %+v", w)
	}
	text := mustBerth(t, "explain", "pod/asks", "--to", "web:80", "--kubeconfig", kubeconfig)
	for _, want := range []string{"From pod default/asks to web port 80/TCP", "refused: ingress default/only-shops", "It stops at: Policy"} {
		if !strings.Contains(text, want) {
			t.Errorf("explain pod --to does not say %q:\n%s", want, text)
		}
	}
	for to, want := range map[string]string{"web": "want NAME:PORT", "web:0": "want NAME:PORT", "web:80/ICMP": "want NAME:PORT", "a.b.example.org:80": "has no such name", "none:80": `services "none" not found in namespace default`, "web-1:80": "of a pod want pod/web-1:80"} {
		if out, err := berth(t, "explain", "pod", "asks", "--to", to, "--kubeconfig", kubeconfig); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--to %s: %v, want %s\n%s", to, err, want, out)
		}
	}
	if out, err := berth(t, "explain", "service", "web", "--node", "n9", "--kubeconfig", kubeconfig); err == nil || !strings.Contains(err.Error(), "there is no node n9") {
		t.Errorf("--node n9: %v\n%s", err, out)
	}
}
