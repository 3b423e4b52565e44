package main

import (
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The name of a pod means the one that is there, not one that had it before.
func TestExplainMeansThePodThatIsThere(t *testing.T) {
	t.Parallel()
	kubeconfig := runHost(t)
	client := schedulable(t, kubeconfig, 2, 1)
	pods := client.CoreV1().Pods("default")
	now := int64(0)
	if err := pods.Delete(t.Context(), "p0", metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pod is gone", func() bool {
		out, err := berth(t, "explain", "pod/p0", "--kubeconfig", kubeconfig)
		return err == nil && strings.Contains(out, "(gone) was to go to")
	})
	other := onePod("p0")
	other.Spec.SchedulerName = "another"
	if _, err := pods.Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if out, err := berth(t, "explain", "pod/p0", "--kubeconfig", kubeconfig); err == nil || !strings.Contains(err.Error(), `no profile claims the pod's schedulerName: "another"`) {
		t.Errorf("explain tells of the pod that is gone: %v\n%s", err, out)
	}
}

// What a controller waits for is said down to the pods, in whose words it is.
func TestExplainTellsWhatADeploymentWaitsFor(t *testing.T) {
	t.Parallel()
	kubeconfig := runHost(t)
	client := schedulable(t, kubeconfig, 0, 0)
	quota := &v1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "few"}, Spec: v1.ResourceQuotaSpec{Hard: v1.ResourceList{"pods": resource.MustParse("1")}}}
	if _, err := client.CoreV1().ResourceQuotas("default").Create(t.Context(), quota, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{"app": "web"}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{
		Replicas: ptr.To[int32](2), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: onePod("").Spec},
	}}
	if _, err := client.AppsV1().Deployments("default").Create(t.Context(), d, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var out string
	eventually(t, "the refusal and the pod that waits are told", func() bool {
		var err error
		out, err = berth(t, "explain", "deploy", "web", "--kubeconfig", kubeconfig)
		return err == nil && strings.Contains(out, "exceeded quota: few") && strings.Contains(out, "no node")
	})
	t.Log(out)
	// Who may not list pods is told nothing of them.
	ask := func() string {
		t.Helper()
		cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Impersonate.UserName = "eve"
		eve, err := kubernetes.NewForConfig(cfg)
		if err != nil {
			t.Fatal(err)
		}
		data, _ := eve.CoreV1().RESTClient().Get().AbsPath("/berth/v1/explain").
			Param("resource", "deployments").Param("namespace", "default").Param("name", "web").DoRaw(t.Context())
		return string(data)
	}
	grant := func(name string, rules ...rbacv1.PolicyRule) {
		t.Helper()
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
		if _, err := client.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "eve"}},
		}
		if _, err := client.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	grant("path", rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"/berth/v1/explain"}})
	eventually(t, "eve may ask, but not about deployments", func() bool { return strings.Contains(ask(), "you may not get deployments.apps") })
	grant("sets", rbacv1.PolicyRule{Verbs: []string{"get", "list"}, APIGroups: []string{"apps"}, Resources: []string{"deployments", "replicasets"}})
	eventually(t, "eve is told of the ReplicaSet", func() bool { return strings.Contains(ask(), "exceeded quota: few") })
	if said := ask(); strings.Contains(said, "Unschedulable") {
		t.Errorf("eve is told of pods, which she may not list: %s", said)
	}
	grant("pods", rbacv1.PolicyRule{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"pods"}})
	eventually(t, "eve is told of pods", func() bool { return strings.Contains(ask(), "Unschedulable") })

	if _, err := berth(t, "explain", "deployments.apps/none", "--kubeconfig", kubeconfig); err == nil || !strings.Contains(err.Error(), `deployments.apps "none" not found`) {
		t.Errorf("of one that is not there: %v", err)
	}
	if _, err := berth(t, "explain", "boat/none", "--kubeconfig", kubeconfig); err == nil || !strings.Contains(err.Error(), "kubectl api-resources") {
		t.Errorf("of a kind that is none: %v", err)
	}
}
