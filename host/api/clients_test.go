package api_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berth-dev/berth/host/api/apitest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/disk"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

var podsResource = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

func createPods(t testing.TB, c kubernetes.Interface, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := c.CoreV1().Pods("default").Create(t.Context(), pod(name), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheDynamicClientSeesObjectsOfAnyKind(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t)
	d, err := dynamic.NewForConfig(s.Config(""))
	if err != nil {
		t.Fatal(err)
	}
	gvr := schema.GroupVersionResource{Group: "policy.berth.dev", Version: "v1alpha1", Resource: "profiles"}
	profile := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "policy.berth.dev/v1alpha1", "kind": "Profile", "metadata": map[string]any{"name": "p"},
		"spec": map[string]any{"priorities": []any{map[string]any{"name": "spread", "weight": int64(2)}}},
	}}
	made, err := d.Resource(gvr).Create(t.Context(), profile, metav1.CreateOptions{FieldManager: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if made.GetKind() != "Profile" || made.GetGeneration() != 1 {
		t.Errorf("created %s of generation %d", made.GetKind(), made.GetGeneration())
	}
	doc := []byte(`{"apiVersion":"policy.berth.dev/v1alpha1","kind":"Profile","metadata":{"name":"p"},"spec":{"priorities":[{"name":"spread","weight":3}]}}`)
	if _, err := d.Resource(gvr).Patch(t.Context(), "p", types.ApplyPatchType, doc, metav1.PatchOptions{FieldManager: "other"}); err == nil {
		t.Error("apply of a field of another manager worked, want a conflict")
	}
	list, err := d.Resource(gvr).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 || list.Items[0].GetKind() != "Profile" {
		t.Errorf("list = %v, %v", list, err)
	}
}

func TestTheMetadataClientListsAndWatchesMetadata(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t)
	createPods(t, client(t, s, ""), "a", "b")
	for _, contentType := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		m, err := metadata.NewForConfig(s.Config(contentType))
		if err != nil {
			t.Fatal(err)
		}
		list, err := m.Resource(podsResource).Namespace("default").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 2 || list.Items[0].Labels["app"] != "a" {
			t.Fatalf("list = %+v, %v", list, err)
		}
		w, err := m.Resource(podsResource).Namespace("default").Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		e := <-w.ResultChan()
		if p, ok := e.Object.(*metav1.PartialObjectMetadata); !ok || p.Name != "a" {
			t.Errorf("first event is %T %+v", e.Object, e.Object)
		}
		w.Stop()
	}
}

func TestDiscoveryIsTheSameAggregatedLegacyAndCached(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t)
	plain, err := discovery.NewDiscoveryClientForConfig(s.Config(""))
	if err != nil {
		t.Fatal(err)
	}
	legacy, err := discovery.NewDiscoveryClientForConfig(s.Config(""))
	if err != nil {
		t.Fatal(err)
	}
	legacy.UseLegacyDiscovery = true
	cached, err := disk.NewCachedDiscoveryClientForConfig(s.Config(""), t.TempDir(), t.TempDir(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for name, d := range map[string]discovery.DiscoveryInterface{"aggregated": plain, "legacy": legacy, "cached": cached} {
		groups, resources, err := d.ServerGroupsAndResources()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var all []string
		for _, g := range groups {
			all = append(all, fmt.Sprintf("%s prefers %s of %d", g.Name, g.PreferredVersion.Version, len(g.Versions)))
		}
		for _, list := range resources {
			for _, r := range list.APIResources {
				all = append(all, fmt.Sprintf("%s %s %s %v %v %v %v", list.GroupVersion, r.Name, r.Kind, r.Namespaced, r.ShortNames, r.Verbs, r.Categories))
			}
		}
		slices.Sort(all)
		if want == nil {
			want = all
		}
		if !slices.Equal(want, all) {
			t.Errorf("%s discovery differs:\n%q\n%q", name, want, all)
		}
	}
	doc, err := plain.OpenAPISchema()
	if err != nil || len(doc.GetDefinitions().GetAdditionalProperties()) < 100 {
		t.Errorf("OpenAPI version 2 as protobuf: %v", err)
	}
}

func TestInformersFollowWithAndWithoutWatchLists(t *testing.T) {
	for _, watchList := range []string{"true", "false"} {
		t.Run("WatchListClient="+watchList, func(t *testing.T) {
			t.Setenv("KUBE_FEATURE_WatchListClient", watchList)
			s := apitest.Start(t)
			c := client(t, s, "application/vnd.kubernetes.protobuf")
			createPods(t, c, "a", "b")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			factory := informers.NewSharedInformerFactory(c, 0)
			informer := factory.Core().V1().Pods().Informer()
			gone := make(chan string, 1)
			if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: func(obj any) { gone <- obj.(*corev1.Pod).Name }}); err != nil {
				t.Fatal(err)
			}
			factory.Start(ctx.Done())
			wait, stop := context.WithTimeout(ctx, 10*time.Second)
			defer stop()
			if !cache.WaitForCacheSync(wait.Done(), informer.HasSynced) {
				t.Fatal("the informer did not sync")
			}
			if n := len(informer.GetStore().List()); n != 2 {
				t.Errorf("the informer has %d pods, want 2", n)
			}
			if err := c.CoreV1().Pods("default").Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			select {
			case name := <-gone:
				if name != "a" {
					t.Errorf("%s is gone, want a", name)
				}
			case <-wait.Done():
				t.Error("the deletion did not arrive")
			}
			cancel()
			factory.Shutdown()
		})
	}
}

func TestALeaderIsElectedAndFollowedByAnother(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t)
	c := client(t, s, "")
	var led atomic.Int32
	elect := func(ctx context.Context, id string, leading chan<- string) {
		lock := &resourcelock.LeaseLock{LeaseMeta: metav1.ObjectMeta{Name: "l", Namespace: "default"}, Client: c.CoordinationV1(), LockConfig: resourcelock.ResourceLockConfig{Identity: id}}
		leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock: lock, LeaseDuration: 2 * time.Second, RenewDeadline: time.Second, RetryPeriod: 100 * time.Millisecond, ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) { led.Add(1); leading <- id },
				OnStoppedLeading: func() {},
			},
		})
	}
	leading := make(chan string, 2)
	first, stopFirst := context.WithCancel(t.Context())
	defer stopFirst()
	second, stopSecond := context.WithCancel(t.Context())
	defer stopSecond()
	done := make(chan struct{}, 2)
	go func() { elect(first, "one", leading); done <- struct{}{} }()
	if id := <-leading; id != "one" {
		t.Fatalf("%s leads, want one", id)
	}
	go func() { elect(second, "two", leading); done <- struct{}{} }()
	stopFirst()
	select {
	case id := <-leading:
		if id != "two" {
			t.Errorf("%s leads, want two", id)
		}
	case <-time.After(time.Minute):
		t.Error("nobody followed the first leader")
	}
	stopSecond()
	<-done
	<-done
}

func TestAListInPagesStaysAtItsRevision(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t)
	c := client(t, s, "application/vnd.kubernetes.protobuf")
	createPods(t, c, "a", "b", "c", "d", "e")
	pods := c.CoreV1().Pods("default")
	page, err := pods.List(t.Context(), metav1.ListOptions{Limit: 2})
	if err != nil || len(page.Items) != 2 || page.Continue == "" || *page.RemainingItemCount != 3 {
		t.Fatalf("first page: %d items, continue %q, %v", len(page.Items), page.Continue, err)
	}
	rv := page.ResourceVersion
	if err := pods.Delete(t.Context(), "d", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	createPods(t, c, "bb")
	names := []string{page.Items[0].Name, page.Items[1].Name}
	for page.Continue != "" {
		if page, err = pods.List(t.Context(), metav1.ListOptions{Limit: 2, Continue: page.Continue}); err != nil {
			t.Fatal(err)
		}
		if page.ResourceVersion != rv {
			t.Errorf("a page is at %s, the first at %s", page.ResourceVersion, rv)
		}
		for _, p := range page.Items {
			names = append(names, p.Name)
		}
	}
	if want := []string{"a", "b", "c", "d", "e"}; !slices.Equal(names, want) {
		t.Errorf("pages show %v, want %v", names, want)
	}
}
