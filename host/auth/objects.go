package auth

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"

	"github.com/berth-dev/berth/host/auth/ca"
	"github.com/berth-dev/berth/host/auth/view"
	"github.com/berth-dev/berth/host/store"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SystemNamespaces are there from the first start on and cannot be deleted.
var SystemNamespaces = []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease}

// Where programs that serve HTTP beside the API, kube-scheduler for one, read
// which clients' certificates they may believe.
const (
	clientConfigMap = "extension-apiserver-authentication"
	clientKey       = "client-ca-file"
)

// createDefaults creates what every cluster has: the system namespaces with their
// accounts, the two priority classes of the system, and the authority's
// certificate for those who meet its clients.
func (a *Auth) createDefaults(ctx context.Context) error {
	var ops []store.Op
	add := func(resource string, obj store.Object) error {
		_, err := a.config.Objects.Get(ctx, view.KeyOf(resource, obj))
		if view.Missing(err) {
			ops = append(ops, view.Fresh(resource, obj, a.config.Now()))
			return nil
		}
		return err
	}
	for _, name := range SystemNamespaces {
		if err := add(view.Namespaces, namespace(name)); err != nil {
			return fmt.Errorf("look for namespace %s: %w", name, err)
		}
	}
	if len(ops) > 0 { // the first start: who deletes the class later keeps it deleted
		class, err := a.standardClass()
		if err == nil {
			err = add(view.StorageClasses, class)
		}
		if err != nil {
			return fmt.Errorf("look for the default storage class: %w", err)
		}
	}
	for _, class := range systemClasses() {
		if err := add(view.PriorityClasses, class); err != nil {
			return fmt.Errorf("look for priority class %s: %w", class.Name, err)
		}
	}
	// The built-in controllers act as these; Kubernetes' default roles name them.
	for _, name := range controllerAccounts {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name}}
		if err := add(view.ServiceAccounts, account); err != nil {
			return fmt.Errorf("look for ServiceAccount %s: %w", name, err)
		}
	}
	op, err := a.clientAuthorities(ctx)
	if err != nil {
		return fmt.Errorf("look for ConfigMap %s: %w", clientConfigMap, err)
	}
	ops = append(ops, op...)
	if len(ops) > 0 {
		if _, err := a.config.Objects.Commit(ctx, ops...); err != nil {
			return fmt.Errorf("create the system's namespaces and priority classes: %w", err)
		}
	}
	return a.Defaults.Restore(ctx)
}

// clientAuthorities writes down, under Kubernetes' names, whose certificates hold
// and whose tell of others in headers. What others added stays.
func (a *Auth) clientAuthorities(ctx context.Context) ([]store.Op, error) {
	want := map[string]string{
		clientKey:                            string(a.Authority.PEM()),
		"requestheader-client-ca-file":       string(a.FrontProxy.PEM()),
		"requestheader-allowed-names":        `["` + ca.FrontProxyClient.Name + `"]`,
		"requestheader-username-headers":     `["X-Remote-User"]`,
		"requestheader-uid-headers":          `["X-Remote-Uid"]`,
		"requestheader-group-headers":        `["X-Remote-Group"]`,
		"requestheader-extra-headers-prefix": `["X-Remote-Extra-"]`,
	}
	have, err := view.Get[*corev1.ConfigMap](ctx, a.config.Objects, view.ConfigMaps, metav1.NamespaceSystem, clientConfigMap)
	if view.Missing(err) {
		return []store.Op{view.Fresh(view.ConfigMaps, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: clientConfigMap}, Data: want,
		}, a.config.Now())}, nil
	}
	if err != nil {
		return nil, err
	}
	next := have.DeepCopy()
	if next.Data == nil {
		next.Data = map[string]string{}
	}
	maps.Copy(next.Data, want)
	if maps.Equal(next.Data, have.Data) {
		return nil, nil
	}
	return []store.Op{{Kind: store.Update, Key: view.KeyOf(view.ConfigMaps, next), Object: next, Expect: view.Revision(have)}}, nil
}

var controllerAccounts = []string{
	"cronjob-controller", "daemon-set-controller", "deployment-controller", "disruption-controller", "endpoint-controller",
	"endpointslice-controller", "endpointslicemirroring-controller", "horizontal-pod-autoscaler", "job-controller",
	"persistent-volume-binder", "replicaset-controller", "replication-controller", "statefulset-controller",
}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelMetadataName: name}},
		Spec:       corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{corev1.FinalizerKubernetes}},
		Status:     corev1.NamespaceStatus{Phase: corev1.NamespaceActive},
	}
}

// standardClass has volumes made in a folder of the node that a claim's pod goes to.
func (a *Auth) standardClass() (*storagev1.StorageClass, error) {
	path, err := filepath.Abs(filepath.Join(a.config.Dir, "volumes"))
	mode, policy := storagev1.VolumeBindingWaitForFirstConsumer, corev1.PersistentVolumeReclaimRetain
	return &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: "standard", Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}},
		Provisioner: view.HostPath, Parameters: map[string]string{"path": path},
		VolumeBindingMode: &mode, ReclaimPolicy: &policy,
	}, err
}

func systemClasses() []*schedulingv1.PriorityClass {
	policy := corev1.PreemptLowerPriority
	class := func(name string, value int32, text string) *schedulingv1.PriorityClass {
		return &schedulingv1.PriorityClass{
			ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1}, Value: value, Description: text, PreemptionPolicy: &policy,
		}
	}
	return []*schedulingv1.PriorityClass{
		class("system-node-critical", 2000001000, "Used for system critical pods that must not be moved from their current node."),
		class("system-cluster-critical", 2000000000, "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary."),
	}
}
