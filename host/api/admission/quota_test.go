package admission

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/auth/view"
	"github.com/berth-dev/berth/host/store"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func resources(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

func (c *cluster) quota(t testing.TB, name string, spec corev1.ResourceQuotaSpec) {
	t.Helper()
	c.create(t, "resourcequotas", "dev", &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec})
}

func asking(pairs ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = resources(pairs...) }
}

func TestQuotasBoundWhatPodsAsk(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	if _, err := c.pod(t, asking("cpu", "100m")); err != nil {
		t.Fatal(err) // is there before the quota
	}
	c.quota(t, "q", corev1.ResourceQuotaSpec{Hard: resources("pods", "3", "requests.cpu", "1", "count/configmaps", "2")})
	_, err := c.pod(t, nil)
	refused(t, err, "failed quota: q: must specify requests.cpu for: c")
	if _, err := c.pod(t, asking("cpu", "800m")); err != nil {
		t.Fatal(err)
	}
	_, err = c.pod(t, asking("cpu", "200m"))
	refused(t, err, "exceeded quota: q, requested: requests.cpu=200m, used: requests.cpu=900m, limited: requests.cpu=1")
	third, err := c.pod(t, asking("cpu", "100m"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.pod(t, asking("cpu", "0"))
	refused(t, err, "exceeded quota: q, requested: pods=1, used: pods=3, limited: pods=3")

	zero := int64(0)
	if _, _, err := c.Delete(t.Context(), registry.On("pods", "dev", third.Name), &metav1.DeleteOptions{GracePeriodSeconds: &zero}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.pod(t, asking("cpu", "100m")); err != nil {
		t.Errorf("after a deletion: %v", err)
	}
	// The namespace's own certificate is one of the two.
	c.create(t, "configmaps", "dev", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
	_, err = c.Create(t.Context(), registry.On("configmaps", "dev", ""), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "b"}})
	refused(t, err, "exceeded quota: q, requested: count/configmaps=1, used: count/configmaps=2, limited: count/configmaps=2")
}

func TestAPodThatEndsGivesItsRoomBack(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.quota(t, "q", corev1.ResourceQuotaSpec{Hard: resources("pods", "1")})
	first, err := c.pod(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.pod(t, nil)
	refused(t, err, "exceeded quota")
	_, err = c.store.Update(t.Context(), store.Key{Resource: "pods", Namespace: "dev", Name: first.Name}, func(o store.Object) (store.Object, error) {
		next := o.DeepCopyObject().(*corev1.Pod)
		next.Status.Phase = corev1.PodSucceeded
		return next, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = c.pod(t, nil); err != nil {
		t.Errorf("after the first pod's end: %v", err)
	}
}

// TestAPodThatNeverEndsGivesItsRoomBack: its node is lost, and nothing happens to
// it any more.
func TestAPodThatNeverEndsGivesItsRoomBack(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	now := time.Now()
	chain := New(Config{Objects: view.Of(c.store), Access: c.auth.Access, Defaults: c.auth.Defaults, Now: func() time.Time { return now }})
	c.Registry = registry.New(registry.Config{Store: c.store, Admission: chain, Tokens: c.auth})
	stuck := func(grace time.Duration) (counts time.Time) {
		pod, err := c.pod(t, func(p *corev1.Pod) { p.Spec.NodeName = "lost" })
		if err != nil {
			t.Fatal(err)
		}
		obj, _, err := c.Delete(t.Context(), registry.On("pods", "dev", pod.Name), &metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(grace.Seconds()))})
		if err != nil {
			t.Fatal(err)
		}
		return obj.GetDeletionTimestamp().Add(grace)
	}
	first, second := stuck(time.Minute), stuck(time.Hour)

	now = first.Add(time.Second)
	c.quota(t, "q", corev1.ResourceQuotaSpec{Hard: resources("pods", "2", "count/pods", "4")})
	if _, err := c.pod(t, nil); err != nil {
		t.Errorf("in the place of a pod that should be long gone: %v", err)
	}
	now = second
	_, err := c.pod(t, nil)
	refused(t, err, "exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2")
	now = second.Add(time.Second)
	if _, err := c.pod(t, nil); err != nil {
		t.Errorf("in the place of one that should be gone by now: %v", err)
	}
	_, err = c.pod(t, nil)
	refused(t, err, "requested: count/pods=1,pods=1, used: count/pods=4,pods=2, limited: count/pods=4,pods=2")
}

func TestManyAtOnceNeverGoBeyondAQuota(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.quota(t, "q", corev1.ResourceQuotaSpec{Hard: resources("pods", "25")})
	var made, denied atomic.Int64
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			_, err := c.pod(t, nil)
			switch {
			case err == nil:
				made.Add(1)
			case apierrors.IsForbidden(err):
				denied.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	if made.Load() != 25 || denied.Load() != 75 {
		t.Errorf("%d were made and %d refused, want 25 and 75", made.Load(), denied.Load())
	}
}

func TestRoomOfWritesThatFailIsGivenBack(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.quota(t, "q", corev1.ResourceQuotaSpec{Hard: resources("pods", "2")})
	named := func(p *corev1.Pod) { p.GenerateName, p.Name = "", "p" }
	if _, err := c.pod(t, named); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if _, err := c.pod(t, named); !apierrors.IsAlreadyExists(err) {
			t.Fatalf("a second pod of the name: %v", err)
		}
	}
	dry := registry.On("pods", "dev", "")
	dry.DryRun = true
	for range 5 {
		if _, err := c.Create(t.Context(), dry, plainPod()); err != nil {
			t.Fatalf("dry run: %v", err)
		}
	}
	if _, err := c.pod(t, nil); err != nil {
		t.Errorf("the room of failed writes is lost: %v", err)
	}
}

func TestScopesChooseThePods(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.quota(t, "best-effort", corev1.ResourceQuotaSpec{Hard: resources("pods", "0"), Scopes: []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeBestEffort}})
	c.quota(t, "critical", corev1.ResourceQuotaSpec{Hard: resources("pods", "0"), ScopeSelector: &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{
		{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOpIn, Values: []string{"system-node-critical"}},
	}}})
	_, err := c.pod(t, nil)
	refused(t, err, "exceeded quota: best-effort")
	if _, err := c.pod(t, asking("cpu", "1m")); err != nil {
		t.Errorf("a pod that asks for something: %v", err)
	}
	_, err = c.pod(t, func(p *corev1.Pod) {
		asking("cpu", "1m")(p)
		p.Spec.PriorityClassName = "system-node-critical"
	})
	refused(t, err, "exceeded quota: critical")
}

func TestAScopeChoosesClaimsByTheirAttributes(t *testing.T) {
	t.Parallel()
	claim := func(names ...string) *corev1.PersistentVolumeClaim {
		p := &corev1.PersistentVolumeClaim{}
		for i, to := range []**string{&p.Spec.VolumeAttributesClassName, &p.Status.CurrentVolumeAttributesClassName} {
			if i < len(names) {
				*to = &names[i]
			}
		}
		return p
	}
	coming := claim("a")
	coming.Status.ModifyVolumeStatus = &corev1.ModifyVolumeStatus{TargetVolumeAttributesClassName: "gold"}
	for _, test := range []struct {
		operator corev1.ScopeSelectorOperator
		values   []string
		in, out  []store.Object
	}{
		{corev1.ScopeSelectorOpExists, nil, []store.Object{claim("a")}, []store.Object{claim(), claim(""), &corev1.Pod{}}},
		{corev1.ScopeSelectorOpDoesNotExist, nil, []store.Object{claim()}, []store.Object{claim("a")}},
		{corev1.ScopeSelectorOpIn, []string{"gold"}, []store.Object{claim("gold"), claim("a", "gold"), coming}, []store.Object{claim("a"), claim()}},
		{corev1.ScopeSelectorOpNotIn, []string{"gold"}, []store.Object{claim("a", "gold"), claim()}, []store.Object{claim("gold")}},
	} {
		quota := &corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{ScopeSelector: &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{
			{ScopeName: corev1.ResourceQuotaScopeVolumeAttributesClass, Operator: test.operator, Values: test.values},
		}}}}
		for i, obj := range slices.Concat(test.in, test.out) {
			if want := i < len(test.in); inScope(quota, obj) != want {
				t.Errorf("%s %v of %+v = %v, want %v", test.operator, test.values, obj, !want, want)
			}
		}
	}
	exists := &corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Scopes: []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeVolumeAttributesClass}}}
	if !inScope(exists, claim("a")) || inScope(exists, claim()) {
		t.Error("the scope by itself does not choose claims that name a class")
	}
}

func TestAQuotaThatGrowsAndGoes(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.quota(t, "q", corev1.ResourceQuotaSpec{Hard: resources("services", "0", "services.nodeports", "0", "requests.storage", "1Gi")})
	service := func(kind corev1.ServiceType) error {
		_, err := c.Create(t.Context(), registry.On("services", "dev", ""), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "s-"},
			Spec:       corev1.ServiceSpec{Type: kind, ClusterIP: "None", ClusterIPs: []string{"None"}, Ports: []corev1.ServicePort{{Port: 80}}},
		})
		return err
	}
	refused(t, service(corev1.ServiceTypeClusterIP), "exceeded quota: q, requested: services=1")
	grow := registry.On("resourcequotas", "dev", "q")
	_, err := c.Modify(t.Context(), grow, func(o store.Object) (store.Object, error) {
		next := o.DeepCopyObject().(*corev1.ResourceQuota)
		next.Spec.Hard["services"] = resource.MustParse("1")
		return next, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := service(corev1.ServiceTypeClusterIP); err != nil {
		t.Errorf("after the quota grew: %v", err)
	}
	if _, _, err := c.Delete(t.Context(), grow, nil); err != nil {
		t.Fatal(err)
	}
	if err := service(corev1.ServiceTypeClusterIP); err != nil {
		t.Errorf("after the quota went: %v", err)
	}
}

// What was written just before a book is opened anew is in its list already.
func TestWhatWasWrittenIsCountedOnce(t *testing.T) {
	t.Parallel()
	quotaOf := func(hard ...string) func(*testing.T, *cluster) {
		return func(t *testing.T, c *cluster) {
			t.Helper()
			_, err := c.Modify(t.Context(), registry.On("resourcequotas", "dev", "q"), func(o store.Object) (store.Object, error) {
				next := o.DeepCopyObject().(*corev1.ResourceQuota)
				next.Spec.Hard = resources(hard...)
				return next, nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	remove := func(t *testing.T, c *cluster) {
		t.Helper()
		if _, _, err := c.Delete(t.Context(), registry.On("pods", "dev", "first"), &metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		then    []func(*testing.T, *cluster)
		history int
		room    int // for so many pods more, of 3
	}{
		"the quota is as it was":               {room: 2},
		"its spec changed":                     {then: []func(*testing.T, *cluster){quotaOf("pods", "3")}, room: 2},
		"its spec changed after a deletion":    {then: []func(*testing.T, *cluster){remove, quotaOf("pods", "3")}, room: 3},
		"its spec changed twice":               {then: []func(*testing.T, *cluster){quotaOf("pods", "2"), quotaOf("pods", "3")}, room: 2},
		"it fell behind the history":           {then: []func(*testing.T, *cluster){crowd}, history: 4, room: 2},
		"it fell behind, and its spec changed": {then: []func(*testing.T, *cluster){crowd, quotaOf("pods", "3")}, history: 4, room: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClusterOver(t, store.Options{MaxEvents: test.history})
			hard := "9"
			if test.history > 0 || len(test.then) == 0 {
				hard = "3"
			}
			c.quota(t, "q", corev1.ResourceQuotaSpec{Hard: resources("pods", hard)})
			if _, err := c.pod(t, func(p *corev1.Pod) { p.Name, p.GenerateName = "first", "" }); err != nil {
				t.Fatal(err)
			}
			for _, then := range test.then {
				then(t, c)
			}
			for range test.room {
				if _, err := c.pod(t, nil); err != nil {
					t.Fatal(err)
				}
			}
			_, err := c.pod(t, nil)
			refused(t, err, "exceeded quota: q, requested: pods=1, used: pods=3, limited: pods=3")
		})
	}
}

// A write that is on its way while a book is opened anew keeps its room.
func TestRoomOutlivesAChangeOfTheQuota(t *testing.T) {
	t.Parallel()
	pod := func(uid types.UID, version string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid, ResourceVersion: version}}
	}
	b := book{pending: map[types.UID]reservation{"made": {}, "changed": {from: "7"}, "on-its-way": {}, "changing": {from: "8"}}}
	for _, o := range []*corev1.Pod{pod("made", "1"), pod("changed", "8"), pod("changing", "8"), pod("other", "2")} {
		b.arrived(o)
	}
	if diff := cmp.Diff([]types.UID{"changing", "on-its-way"}, slices.Sorted(maps.Keys(b.pending))); diff != "" {
		t.Errorf("pending (-want +got):\n%s", diff)
	}
}

func TestTheStatusTellsWhatIsUsed(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	chain := New(Config{Objects: view.Of(c.store), Access: c.auth.Access, Defaults: c.auth.Defaults})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- chain.Run(ctx) }()
	c.quota(t, "q", corev1.ResourceQuotaSpec{Hard: resources("pods", "5", "requests.memory", "1Gi", "secrets", "3")})
	if _, err := c.pod(t, asking("memory", "64Mi")); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"pods": "1", "requests.memory": "64Mi", "secrets": "0"}
	for {
		seen := c.store.Changed("resourcequotas")
		got := map[string]string{}
		obj, _ := c.store.Get(store.Key{Resource: "resourcequotas", Namespace: "dev", Name: "q"})
		for name, value := range obj.(*corev1.ResourceQuota).Status.Used {
			got[string(name)] = value.String()
		}
		if cmp.Equal(want, got) {
			break
		}
		if err := view.Of(c.store).Await(ctx, "resourcequotas", seen); err != nil {
			t.Fatalf("used = %v, want %v", got, want)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestUsageOfServicesAndClaims(t *testing.T) {
	t.Parallel()
	balancer := &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 1}, {Port: 2, NodePort: 30000}}}}
	bare := balancer.DeepCopy()
	bare.Spec.AllocateLoadBalancerNodePorts = ptr.To(false)
	claim := &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: ptr.To("gold"),
		Resources: corev1.VolumeResourceRequirements{Requests: resources("storage", "2Gi")}}}
	annotated := claim.DeepCopy()
	annotated.Annotations = map[string]string{corev1.BetaStorageClassAnnotation: "silver"}
	tests := map[string]struct {
		resource string
		object   store.Object
		want     string
	}{
		"a load balancer":                    {"services", balancer, "count/services=1 services=1 services.loadbalancers=1 services.nodeports=2"},
		"a load balancer without node ports": {"services", bare, "count/services=1 services=1 services.loadbalancers=1 services.nodeports=1"},
		"a claim":                            {"persistentvolumeclaims", claim, "count/persistentvolumeclaims=1 gold.storageclass.storage.k8s.io/persistentvolumeclaims=1 gold.storageclass.storage.k8s.io/requests.storage=2Gi persistentvolumeclaims=1 requests.storage=2Gi"},
		"a claim with an annotation":         {"persistentvolumeclaims", annotated, "count/persistentvolumeclaims=1 persistentvolumeclaims=1 requests.storage=2Gi silver.storageclass.storage.k8s.io/persistentvolumeclaims=1 silver.storageclass.storage.k8s.io/requests.storage=2Gi"},
		"a deployment":                       {"deployments.apps", &corev1.ConfigMap{}, "count/deployments.apps=1"},
	}
	for name, test := range tests {
		var texts []string
		usage := usageOf(test.resource, test.object, time.Now())
		for _, key := range sorted(usage) {
			value := usage[key]
			texts = append(texts, fmt.Sprintf("%s=%s", key, value.String()))
			if ownerOf(key) != test.resource {
				t.Errorf("%s: %s is said to be of %s", name, key, ownerOf(key))
			}
		}
		if got := strings.Join(texts, " "); got != test.want {
			t.Errorf("%s uses %s, want %s", name, got, test.want)
		}
	}
}
