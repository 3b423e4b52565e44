package admission

import (
	"strings"
	"testing"

	"github.com/berth-dev/berth/host/api/kind"
	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/auth"
	"github.com/berth-dev/berth/host/auth/view"
	"github.com/berth-dev/berth/host/store"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/ptr"
)

// cluster is a registry with all admission, as a host has it.
type cluster struct {
	*registry.Registry
	store *store.Store
	auth  *auth.Auth
}

func newCluster(t testing.TB) *cluster {
	t.Helper()
	return newClusterOver(t, store.Options{})
}

func newClusterOver(t testing.TB, opts store.Options) *cluster {
	t.Helper()
	opts.Indexes = registry.Indexes()
	s, err := store.Open(t.Context(), store.NewMemory(), kind.Codec{}, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	objects := view.Of(s)
	a, err := auth.Open(t.Context(), auth.Config{Dir: t.TempDir(), Objects: objects})
	if err != nil {
		t.Fatal(err)
	}
	chain := New(Config{Objects: objects, Access: a.Access, Defaults: a.Defaults})
	c := &cluster{registry.New(registry.Config{Store: s, Admission: chain, Tokens: a}), s, a}
	c.create(t, "namespaces", "", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "dev"}})
	return c
}

// create makes an object in the name of the host.
func (c *cluster) create(t testing.TB, resource, namespace string, obj store.Object) store.Object {
	t.Helper()
	made, err := c.Create(t.Context(), registry.On(resource, namespace, ""), obj)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func (c *cluster) createAs(t testing.TB, by user.Info, resource, namespace string, obj store.Object) (store.Object, error) {
	t.Helper()
	r := registry.On(resource, namespace, "")
	r.User = by
	return c.Create(t.Context(), r, obj)
}

func (c *cluster) pod(t testing.TB, change func(*corev1.Pod)) (*corev1.Pod, error) {
	t.Helper()
	pod := plainPod()
	if change != nil {
		change(pod)
	}
	made, err := c.Create(t.Context(), registry.On("pods", "dev", ""), pod)
	if err != nil {
		return nil, err
	}
	return made.(*corev1.Pod), nil
}

func plainPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "p-"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}

func refused(t *testing.T, err error, want string) {
	t.Helper()
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("error = %v, want forbidden with %q", err, want)
	}
}

func TestAPlainPodIsCompleted(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	pod, err := c.pod(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := pod.Spec.ServiceAccountName + " " + pod.Spec.DeprecatedServiceAccount; got != "default default" {
		t.Errorf("service account = %q", got)
	}
	if len(pod.Spec.Volumes) != 1 || !strings.HasPrefix(pod.Spec.Volumes[0].Name, "kube-api-access-") || pod.Spec.Volumes[0].Projected == nil {
		t.Fatalf("volumes = %v", pod.Spec.Volumes)
	}
	want := []corev1.VolumeMount{{Name: pod.Spec.Volumes[0].Name, ReadOnly: true, MountPath: tokenMountPath}}
	if diff := cmp.Diff(want, pod.Spec.Containers[0].VolumeMounts); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
	if pod.Spec.Priority == nil || *pod.Spec.Priority != 0 || *pod.Spec.PreemptionPolicy != corev1.PreemptLowerPriority {
		t.Errorf("priority = %v, %v", pod.Spec.Priority, pod.Spec.PreemptionPolicy)
	}
	var tolerated []string
	for _, toleration := range pod.Spec.Tolerations {
		tolerated = append(tolerated, toleration.Key)
		if *toleration.TolerationSeconds != 300 {
			t.Errorf("%s is tolerated for %d s", toleration.Key, *toleration.TolerationSeconds)
		}
	}
	if diff := cmp.Diff([]string{"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}, tolerated); diff != "" {
		t.Errorf("tolerations (-want +got):\n%s", diff)
	}
}

func TestServiceAccounts(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.create(t, "serviceaccounts", "dev", &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Name: "quiet"}, AutomountServiceAccountToken: ptr.To(false),
		ImagePullSecrets: []corev1.LocalObjectReference{{Name: "pull"}},
	})
	c.create(t, "serviceaccounts", "dev", &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Name: "strict", Annotations: map[string]string{enforceMountableSecrets: "true"}},
		Secrets:    []corev1.ObjectReference{{Name: "listed"}},
	})
	secret := func(name string) corev1.Volume {
		return corev1.Volume{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name}}}
	}
	tests := map[string]struct {
		change func(*corev1.Pod)
		fails  string
		check  func(*corev1.Pod) bool
	}{
		"an account that wants no token": {
			change: func(p *corev1.Pod) { p.Spec.ServiceAccountName = "quiet" },
			check:  func(p *corev1.Pod) bool { return len(p.Spec.Volumes) == 0 && p.Spec.ImagePullSecrets[0].Name == "pull" },
		},
		"a pod that wants a token all the same": {
			change: func(p *corev1.Pod) {
				p.Spec.ServiceAccountName, p.Spec.AutomountServiceAccountToken = "quiet", ptr.To(true)
			},
			check: func(p *corev1.Pod) bool { return len(p.Spec.Volumes) == 1 },
		},
		"a pod with pull secrets of its own": {
			change: func(p *corev1.Pod) {
				p.Spec.ServiceAccountName, p.Spec.ImagePullSecrets = "quiet", []corev1.LocalObjectReference{{Name: "own"}}
			},
			check: func(p *corev1.Pod) bool {
				return len(p.Spec.ImagePullSecrets) == 1 && p.Spec.ImagePullSecrets[0].Name == "own"
			},
		},
		"a container that mounts something else there": {
			change: func(p *corev1.Pod) {
				p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
				p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: tokenMountPath}}
			},
			check: func(p *corev1.Pod) bool { return len(p.Spec.Volumes) == 1 },
		},
		"an account that is not there": {
			change: func(p *corev1.Pod) { p.Spec.ServiceAccountName = "nobody" },
			fails:  `error looking up service account dev/nobody: serviceaccount "nobody" not found`,
		},
		"a strict account's own secret": {
			change: func(p *corev1.Pod) {
				p.Spec.ServiceAccountName, p.Spec.Volumes = "strict", []corev1.Volume{secret("listed")}
			},
			check: func(*corev1.Pod) bool { return true },
		},
		"a secret that a strict account does not list": {
			change: func(p *corev1.Pod) {
				p.Spec.ServiceAccountName, p.Spec.Volumes = "strict", []corev1.Volume{secret("other")}
			},
			fails: "does not reference that secret",
		},
		"a mirror pod with an account": {
			change: func(p *corev1.Pod) {
				p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
				p.Spec.NodeName, p.Spec.ServiceAccountName = "n1", "default"
			},
			fails: "a mirror pod may not reference service accounts",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod, err := c.pod(t, test.change)
			if test.fails != "" {
				refused(t, err, test.fails)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !test.check(pod) {
				t.Errorf("pod spec = %+v", pod.Spec)
			}
		})
	}
}

func TestPriorities(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	class := func(name string, value int32, standard bool) *schedulingv1.PriorityClass {
		return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value, GlobalDefault: standard, PreemptionPolicy: ptr.To(corev1.PreemptNever)}
	}
	priority := func(change func(*corev1.Pod)) (int32, error) {
		t.Helper()
		pod, err := c.pod(t, change)
		if err != nil {
			return 0, err
		}
		return *pod.Spec.Priority, nil
	}
	named := func(name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.PriorityClassName = name }
	}
	c.create(t, "priorityclasses.scheduling.k8s.io", "", class("high", 1000, false))
	for name, want := range map[string]int32{"high": 1000, "system-node-critical": 2000001000, "": 0} {
		if got, err := priority(named(name)); got != want || err != nil {
			t.Errorf("class %q gives %d, %v, want %d", name, got, err, want)
		}
	}
	_, err := priority(named("nowhere"))
	refused(t, err, "no PriorityClass with name nowhere was found")
	_, err = priority(func(p *corev1.Pod) { p.Spec.Priority = ptr.To(int32(7)) })
	refused(t, err, "must not be provided in pod spec")
	_, err = priority(func(p *corev1.Pod) {
		p.Spec.PriorityClassName, p.Spec.PreemptionPolicy = "high", ptr.To(corev1.PreemptLowerPriority)
	})
	refused(t, err, "PreemptionPolicy")

	c.create(t, "priorityclasses.scheduling.k8s.io", "", class("standard", 5, true))
	if got, err := priority(nil); got != 5 || err != nil {
		t.Errorf("the default class gives %d, %v", got, err)
	}
	_, err = c.Create(t.Context(), registry.On("priorityclasses.scheduling.k8s.io", "", ""), class("other", 6, true))
	refused(t, err, "already marked as default")
}

func TestNamespaces(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	for _, name := range auth.SystemNamespaces {
		_, _, err := c.Delete(t.Context(), registry.On("namespaces", "", name), nil)
		refused(t, err, "this namespace may not be deleted")
	}
	c.create(t, "namespaces", "", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "team-"}})
	made := c.create(t, "namespaces", "", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}})
	created, err := registry.ParseVersion(made.GetResourceVersion())
	if err != nil {
		t.Fatal(err)
	}
	for i, key := range []store.Key{
		{Resource: view.ServiceAccounts, Namespace: "team", Name: "default"},
		{Resource: view.ConfigMaps, Namespace: "team", Name: "kube-root-ca.crt"},
	} {
		obj, ok := c.store.Get(key)
		if !ok {
			t.Fatalf("%s is missing", key)
		}
		// The revisions of one transaction follow on each other.
		if revision, err := registry.ParseVersion(obj.GetResourceVersion()); err != nil || revision != created+int64(i)+1 {
			t.Errorf("%s has revision %d (%v), and its namespace %d: it came later", key, revision, err, created)
		}
	}
}

func TestLimitRanges(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	list := func(cpu, memory string) corev1.ResourceList {
		l := corev1.ResourceList{}
		if cpu != "" {
			l[corev1.ResourceCPU] = resource.MustParse(cpu)
		}
		if memory != "" {
			l[corev1.ResourceMemory] = resource.MustParse(memory)
		}
		return l
	}
	c.create(t, "limitranges", "dev", &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "l"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{
		{Type: corev1.LimitTypeContainer, Default: list("500m", "256Mi"), DefaultRequest: list("100m", ""), Min: list("50m", ""), Max: list("1", ""), MaxLimitRequestRatio: list("8", "")},
		{Type: corev1.LimitTypePod, Max: list("2", "")},
		{Type: corev1.LimitTypePersistentVolumeClaim, Max: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}}})
	pod, err := c.pod(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := pod.Spec.Containers[0].Resources
	if got.Requests.Cpu().String() != "100m" || got.Limits.Cpu().String() != "500m" || got.Limits.Memory().String() != "256Mi" || got.Requests.Memory().String() != "256Mi" {
		t.Errorf("resources = %+v", got)
	}
	if note := pod.Annotations[limitsAnnotation]; !strings.Contains(note, "cpu, memory limit for container c") {
		t.Errorf("annotation = %q", note)
	}
	cpu := func(request, limit string, containers int) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Containers = nil
			for i := range containers {
				p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: string(rune('a' + i)), Image: "i",
					Resources: corev1.ResourceRequirements{Requests: list(request, ""), Limits: list(limit, "")}})
			}
		}
	}
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		want   string
	}{
		"too little":            {cpu("10m", "50m", 1), "minimum cpu usage per Container is 50m, but request is 10m"},
		"too much":              {cpu("1", "3", 1), "maximum cpu usage per Container is 1, but limit is 3"},
		"too far between":       {cpu("100m", "900m", 1), "cpu max limit to request ratio per Container is 8, but provided ratio is 9"},
		"too much as a whole":   {cpu("1", "1", 3), "maximum cpu usage per Pod is 2, but limit is 3"},
		"a sum at the very rim": {cpu("1", "1", 2), ""},
	} {
		_, err := c.pod(t, test.change)
		if test.want == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		refused(t, err, test.want)
	}
	_, err = c.Create(t.Context(), registry.On("persistentvolumeclaims", "dev", ""), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "c"},
		Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}}},
	})
	refused(t, err, "maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi")
}

func TestNobodyGrantsWhatTheyLack(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	erin := &user.DefaultInfo{Name: "erin", Groups: []string{user.AllAuthenticated}}
	grant := func(name string, ref string) {
		c.create(t, "rolebindings.rbac.authorization.k8s.io", "dev", &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "erin"}},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: ref},
		})
	}
	grant("admin", "admin")
	role := func(verbs ...string) *rbacv1.Role {
		return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{GenerateName: "r-"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: verbs}}}
	}
	binding := func(kind, name string) *rbacv1.RoleBinding {
		return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{GenerateName: "b-"},
			Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "erin"}},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}}
	}
	const roles, bindings = "roles.rbac.authorization.k8s.io", "rolebindings.rbac.authorization.k8s.io"
	if _, err := c.createAs(t, erin, roles, "dev", role("get", "create")); err != nil {
		t.Errorf("a role of rights that erin has: %v", err)
	}
	_, err := c.createAs(t, erin, roles, "dev", role("get", "*"))
	refused(t, err, "is attempting to grant RBAC permissions not currently held")
	if _, err := c.createAs(t, erin, bindings, "dev", binding("ClusterRole", "view")); err != nil {
		t.Errorf("a binding of rights that erin has: %v", err)
	}
	_, err = c.createAs(t, erin, bindings, "dev", binding("ClusterRole", "cluster-admin"))
	refused(t, err, "not currently held")
	_, err = c.createAs(t, erin, bindings, "default", binding("ClusterRole", "view"))
	refused(t, err, "not currently held")
	if _, err = c.createAs(t, erin, bindings, "dev", binding("Role", "nowhere")); !apierrors.IsNotFound(err) {
		t.Errorf("a binding of a role that is missing: %v", err)
	}
	_, err = c.createAs(t, erin, "clusterrolebindings.rbac.authorization.k8s.io", "", &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "all"}, Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "erin"}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
	})
	refused(t, err, "not currently held")

	c.create(t, "clusterroles.rbac.authorization.k8s.io", "", &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "binder"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles"}, ResourceNames: []string{"cluster-admin"}, Verbs: []string{"bind"}},
		{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles"}, Verbs: []string{"escalate"}},
	}})
	grant("binder", "binder")
	if _, err := c.createAs(t, erin, bindings, "dev", binding("ClusterRole", "cluster-admin")); err != nil {
		t.Errorf("with the right to bind: %v", err)
	}
}

func TestTheAggregationRuleNeedsEverything(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	erin := &user.DefaultInfo{Name: "erin", Groups: []string{user.AllAuthenticated}}
	_, err := c.createAs(t, erin, "clusterroles.rbac.authorization.k8s.io", "", &rbacv1.ClusterRole{
		ObjectMeta:      metav1.ObjectMeta{Name: "gather"},
		AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"a": "b"}}}},
	})
	refused(t, err, "must have cluster-admin privileges to use the aggregationRule")
}

func TestNewNodesWaitUntilTheyAreReady(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	silent := c.create(t, "nodes", "", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}).(*corev1.Node)
	if len(silent.Spec.Taints) != 1 || silent.Spec.Taints[0].Key != corev1.TaintNodeNotReady {
		t.Errorf("taints = %v", silent.Spec.Taints)
	}
	ready := c.create(t, "nodes", "", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}, Status: corev1.NodeStatus{
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}}).(*corev1.Node)
	if len(ready.Spec.Taints) != 0 {
		t.Errorf("taints of a node that is ready = %v", ready.Spec.Taints)
	}
}

func BenchmarkCreatePod(b *testing.B) {
	c := newCluster(b)
	request := registry.On("pods", "dev", "")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Create(b.Context(), request, plainPod()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkChain(b *testing.B) {
	c := newCluster(b)
	chain := New(Config{Objects: view.Of(c.store), Access: c.auth.Access, Defaults: c.auth.Defaults})
	pod := plainPod()
	b.ReportAllocs()
	for b.Loop() {
		a := &registry.Attributes{Operation: registry.Create, Resource: corev1.Resource("pods"), Namespace: "dev", User: registry.Host, Object: pod.DeepCopy()}
		if err := chain.Admit(b.Context(), a); err != nil {
			b.Fatal(err)
		}
		if err := chain.Validate(b.Context(), a); err != nil {
			b.Fatal(err)
		}
	}
}

func TestClaimsGetTheDefaultStorageClass(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	claim := func(name string, class *string) string {
		t.Helper()
		made := c.create(t, "persistentvolumeclaims", "dev", &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: class,
				Resources: corev1.VolumeResourceRequirements{Requests: resources("storage", "1Gi")},
			},
		}).(*corev1.PersistentVolumeClaim)
		if made.Spec.StorageClassName == nil {
			return "none"
		}
		return *made.Spec.StorageClassName
	}
	if got := claim("a", nil); got != "standard" {
		t.Errorf("a claim of no class has class %q", got)
	}
	if got := claim("b", ptr.To("")); got != "" {
		t.Errorf("a claim of class \"\" has class %q", got)
	}
	if _, _, err := c.Delete(t.Context(), registry.On("storageclasses.storage.k8s.io", "", "standard"), nil); err != nil {
		t.Fatal(err)
	}
	if got := claim("c", nil); got != "none" {
		t.Errorf("without a default class, a claim has class %q", got)
	}
}

func TestIngressesGetTheDefaultClass(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	class := func(name string) string {
		t.Helper()
		backend := networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "s", Port: networkingv1.ServiceBackendPort{Number: 80}}}
		made := c.create(t, "ingresses.networking.k8s.io", "dev", &networkingv1.Ingress{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.IngressSpec{DefaultBackend: &backend},
		}).(*networkingv1.Ingress)
		return ptr.Deref(made.Spec.IngressClassName, "none")
	}
	if got := class("a"); got != "none" {
		t.Errorf("without classes, an ingress has class %q", got)
	}
	for name, isDefault := range map[string]string{"other": "false", "web": "true"} {
		c.create(t, "ingressclasses.networking.k8s.io", "", &networkingv1.IngressClass{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{networkingv1.AnnotationIsDefaultIngressClass: isDefault}},
			Spec:       networkingv1.IngressClassSpec{Controller: "example.org/web"},
		})
	}
	if got := class("b"); got != "web" {
		t.Errorf("an ingress of no class has class %q", got)
	}
}
