package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/store"
)

func TestMissingChildrenAreMade(t *testing.T) {
	t.Parallel()
	drive(t, &guest{decide: keep}, func(c *cluster) { c.put("replicasets.apps", set("web", 2)) }, func(c *cluster) {
		if diff := cmp.Diff([]string{"web-1 of web", "web-2 of web"}, c.pods()); diff != "" {
			t.Errorf("pods differ (-want +got):\n%s", diff)
		}
		o, _ := c.store.Get(store.Key{Resource: "replicasets.apps", Namespace: "default", Name: "web"})
		if got := o.(*appsv1.ReplicaSet).Status.Replicas; got != 2 {
			t.Errorf("status.replicas = %d, want 2", got)
		}
	})
}

func TestOrphansThatMatchAreAdopted(t *testing.T) {
	t.Parallel()
	drive(t, &guest{decide: keep}, func(c *cluster) {
		c.put("replicasets.apps", set("web", 1))
		c.put("pods", pod("mine", "web"))
		c.put("pods", pod("other", "db"))
	}, func(c *cluster) {
		if diff := cmp.Diff([]string{"mine of web", "other of nobody"}, c.pods()); diff != "" {
			t.Errorf("pods differ (-want +got):\n%s", diff)
		}
	})
}

func TestWhatAGuestMayNotDoIsNotDone(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		outcome abi.ReconcileResult
	}{
		{"delete what its parent does not own", abi.ReconcileResult{Delete: []abi.Deletion{{UID: "uid-mine"}}}},
		{"delete what it was not given", abi.ReconcileResult{Delete: []abi.Deletion{{UID: "uid-other"}}}},
		{"adopt what it was not given", abi.ReconcileResult{Adopt: []string{"uid-other"}}},
		{"make a kind that it did not declare", abi.ReconcileResult{Create: []abi.Creation{{Count: 1, Object: json.RawMessage(`{"apiVersion":"v1","kind":"Secret"}`)}}}},
		{"make what is no object", abi.ReconcileResult{Create: []abi.Creation{{Count: 1, Object: json.RawMessage(`[]`)}}}},
		{"write a status that does not decode", abi.ReconcileResult{Status: json.RawMessage(`{"replicas":"many"}`)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := &guest{decide: func(*Object, []Object) (*abi.ReconcileResult, error) { out := tt.outcome; return &out, nil }}
			drive(t, g, func(c *cluster) {
				c.put("replicasets.apps", set("web", 1))
				c.put("pods", pod("mine", "web"))
				c.put("pods", pod("other", "db"))
			}, func(c *cluster) {
				if diff := cmp.Diff([]string{"mine of nobody", "other of nobody"}, c.pods()); diff != "" {
					t.Errorf("pods differ (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestAGuestMayWhatItsServiceAccountMay(t *testing.T) {
	t.Parallel()
	all := func(*Object, []Object) (*abi.ReconcileResult, error) {
		return &abi.ReconcileResult{
			Status: json.RawMessage(`{"replicas":7}`), Adopt: []string{"uid-orphan"}, Delete: []abi.Deletion{{UID: "uid-owned"}},
			Create: []abi.Creation{{Count: 1, Object: json.RawMessage(`{"apiVersion":"v1","kind":"Pod"}`)}},
			Events: []abi.Event{{Type: "Normal", Reason: "Said"}},
		}, nil
	}
	tests := []struct {
		denied string
		pods   []string
		said   bool
		status int32
	}{
		{"", []string{"orphan of web", "web-1 of web"}, true, 7},
		{"list replicasets.apps", []string{"orphan of nobody", "owned of web"}, false, 0},
		{"watch replicasets.apps", []string{"orphan of nobody", "owned of web"}, false, 0},
		{"list pods", []string{"orphan of nobody", "owned of web"}, false, 0},
		{"list configmaps", []string{"orphan of nobody", "owned of web"}, false, 0},
		// What is found by a reference may be in any namespace.
		{"list persistentvolumes everywhere", []string{"orphan of nobody", "owned of web"}, false, 0},
		// An answer is whole or nothing, save creations that are refused.
		{"patch pods", []string{"orphan of nobody", "owned of web"}, false, 0},
		{"delete pods", []string{"orphan of nobody", "owned of web"}, false, 0},
		{"update replicasets.apps/status", []string{"orphan of nobody", "owned of web"}, false, 0},
		{"create pods", []string{"orphan of web"}, true, 7},
		{"create events", []string{"orphan of web", "web-1 of web"}, false, 7},
	}
	for _, tt := range tests {
		t.Run("denied: "+tt.denied, func(t *testing.T) {
			t.Parallel()
			asked := false
			g := &guest{related: []Kind{
				{APIVersion: "v1", Kind: "ConfigMap"},
				{APIVersion: "v1", Kind: "PersistentVolume", By: abi.ByReference, Path: "spec.claimRef"},
			}, decide: func(p *Object, c []Object) (*abi.ReconcileResult, error) {
				if asked {
					return &abi.ReconcileResult{}, nil
				}
				asked = true
				return all(p, c)
			}}
			drive(t, g, func(c *cluster) {
				c.denied = tt.denied
				c.put("replicasets.apps", set("web", 1))
				c.put("pods", pod("orphan", "web"))
				owned := pod("owned", "web")
				yes := true
				owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "uid-web", Controller: &yes}}
				c.put("pods", owned)
			}, func(c *cluster) {
				if diff := cmp.Diff(tt.pods, c.pods()); diff != "" {
					t.Errorf("pods differ (-want +got):\n%s", diff)
				}
				if said := slices.Contains(c.events, "Normal Said"); said != tt.said {
					t.Errorf("events %q, want Said: %v", c.events, tt.said)
				}
				o, _ := c.store.Get(store.Key{Resource: "replicasets.apps", Namespace: "default", Name: "web"})
				if got := o.(*appsv1.ReplicaSet).Status.Replicas; got != tt.status {
					t.Errorf("status.replicas = %d, want %d", got, tt.status)
				}
				if tt.denied != "" && !strings.Contains(strings.Join(c.notes, "\n"), "cannot "+tt.denied) {
					t.Errorf("nobody is told that it cannot %s: %q", tt.denied, c.notes)
				}
			})
		})
	}
}

func TestARefusedCreationKeepsBackWhatFollows(t *testing.T) {
	t.Parallel()
	asked := false
	g := &guest{related: []Kind{{APIVersion: "v1", Kind: "ConfigMap", Writes: []string{"create"}}}}
	g.decide = func(*Object, []Object) (*abi.ReconcileResult, error) {
		if asked {
			return &abi.ReconcileResult{}, nil
		}
		asked = true
		return &abi.ReconcileResult{Create: []abi.Creation{
			{Count: 1, Success: "first is there", Object: json.RawMessage(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"first"}}`)},
			{Count: 1, Failure: "second is not: ", Object: json.RawMessage(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"second"}}`)},
			{Count: 1, Success: "third is there", Object: json.RawMessage(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"third"}}`)},
		}}, nil
	}
	drive(t, g, func(c *cluster) {
		c.denied = "create configmaps"
		c.put("replicasets.apps", set("web", 1))
	}, func(c *cluster) {
		if diff := cmp.Diff([]string{"first of web"}, c.pods()); diff != "" {
			t.Errorf("pods differ (-want +got):\n%s", diff)
		}
		want := []string{"SuccessfulCreate: first is there", "FailedCreate: second is not: cannot create configmaps"}
		if diff := cmp.Diff(want, c.said); diff != "" {
			t.Errorf("events differ (-want +got):\n%s", diff)
		}
	})
}

func TestCreationsMayDiffer(t *testing.T) {
	t.Parallel()
	g := &guest{decide: func(_ *Object, children []Object) (*abi.ReconcileResult, error) {
		if len(children) > 0 {
			return &abi.ReconcileResult{}, nil
		}
		return &abi.ReconcileResult{Create: []abi.Creation{{
			Count: 2, From: "spec.template", Object: json.RawMessage(`{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"all":"x"}},"spec":{"subdomain":"s"}}`),
			Each: []json.RawMessage{
				json.RawMessage(`{"metadata":{"name":"a","labels":{"n":"0"}},"spec":{"hostname":"a-0"}}`),
				json.RawMessage(`{"metadata":{"name":"b","labels":{"all":null}},"spec":{"subdomain":null}}`),
			},
		}}}, nil
	}}
	drive(t, g, func(c *cluster) {
		web := set("web", 1)
		web.Spec.Template.Labels = map[string]string{"app": "web"}
		c.put("replicasets.apps", web)
	}, func(c *cluster) {
		list, err := c.store.List("pods", "", store.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, o := range list.Items {
			p := o.(*v1.Pod)
			got = append(got, fmt.Sprintf("%s %v %s.%s", p.Name, p.Labels, p.Spec.Hostname, p.Spec.Subdomain))
		}
		want := []string{"a map[all:x app:web n:0] a-0.s", "b map[app:web] ."}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("pods (-want +got):\n%s", diff)
		}
	})
}

func TestNamesWithOrdinals(t *testing.T) {
	t.Parallel()
	var given []string
	g := &guest{related: []Kind{{APIVersion: "v1", Kind: "ConfigMap", By: abi.ByOrdinal, Path: "spec.template.spec.containers"}}}
	g.besides = func(related []Object) {
		given = nil
		for i := range related {
			given = append(given, related[i].Object.GetName())
		}
	}
	g.decide = func(*Object, []Object) (*abi.ReconcileResult, error) { return &abi.ReconcileResult{}, nil }
	config := func(name string) *v1.ConfigMap {
		return &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
	}
	drive(t, g, func(c *cluster) {
		web := set("web-a", 1)
		web.Spec.Template.Spec.Containers = []v1.Container{{Name: "data"}, {Name: "log-1"}}
		c.put("replicasets.apps", web)
		for _, name := range []string{"data-web-a-0", "log-1-web-a-17", "data-web-a-x", "data-web-a", "data-web-a--1", "other-web-a-0", "data-web-0"} {
			c.put("configmaps", config(name))
		}
	}, func(c *cluster) {
		if diff := cmp.Diff([]string{"data-web-a-0", "log-1-web-a-17"}, given); diff != "" {
			t.Errorf("given (-want +got):\n%s", diff)
		}
		c.put("configmaps", config("data-web-a-3"))
		synctest.Wait()
		if !slices.Contains(given, "data-web-a-3") {
			t.Errorf("given %q, and nobody was woken by data-web-a-3", given)
		}
	})
}

func TestCreationsAreBounded(t *testing.T) {
	t.Parallel()
	asked := 0
	g := &guest{decide: func(*Object, []Object) (*abi.ReconcileResult, error) {
		if asked++; asked > 1 {
			return &abi.ReconcileResult{}, nil
		}
		return &abi.ReconcileResult{Create: []abi.Creation{{Count: 5000, Object: json.RawMessage(`{"apiVersion":"v1","kind":"Pod"}`)}}}, nil
	}}
	drive(t, g, func(c *cluster) { c.put("replicasets.apps", set("web", 1)) }, func(c *cluster) {
		if got := len(c.pods()); got != MaxCreations {
			t.Errorf("%d pods were made at once, want at most %d", got, MaxCreations)
		}
	})
}

func TestAGuestThatFailsIsAskedAgain(t *testing.T) {
	t.Parallel()
	asked := 0
	g := &guest{decide: func(p *Object, c []Object) (*abi.ReconcileResult, error) {
		if asked++; asked < 3 {
			return nil, fmt.Errorf("trap %d", asked)
		}
		return keep(p, c)
	}}
	drive(t, g, func(c *cluster) { c.put("replicasets.apps", set("web", 1)) }, func(c *cluster) {
		if len(c.pods()) != 1 {
			t.Errorf("pods = %v after %d asks, want one", c.pods(), asked)
		}
	})
}

func TestKindsThatAreNotServedAreRefused(t *testing.T) {
	t.Parallel()
	_, err := New(Config{Guest: &guest{decide: keep}, Types: func(string, string) (Type, bool) { return Type{}, false }})
	if err == nil || !strings.Contains(err.Error(), "does not serve") {
		t.Errorf("New() = %v, want a refusal that says so", err)
	}
}

func TestAReferenceHasToBeOne(t *testing.T) {
	t.Parallel()
	g := &guest{decide: keep, related: []Kind{{APIVersion: "v1", Kind: "ConfigMap", By: abi.ByReference, Path: "metadata.name"}}}
	_, err := New(Config{Guest: g, Types: func(apiVersion, kind string) (Type, bool) { t, ok := kinds[apiVersion+" "+kind]; return t, ok }})
	if err == nil || !strings.Contains(err.Error(), `by the reference at "metadata.name", and ConfigMap has none there`) {
		t.Errorf("New() = %v, want a refusal that says so", err)
	}
}

// A guest may give the same status each time: what changes nothing is not
// written, and brings nothing about.
func TestAStatusThatIsSoAlreadyIsNotWritten(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	g := &guest{decide: func(*Object, []Object) (*abi.ReconcileResult, error) {
		asked.Add(1)
		return &abi.ReconcileResult{Status: json.RawMessage(`{"replicas":3}`)}, nil
	}}
	drive(t, g, func(c *cluster) { c.put("replicasets.apps", set("web", 3)) }, func(*cluster) {
		if n := asked.Load(); n > 3 {
			t.Errorf("it was asked %d times about a parent that nobody changed", n)
		}
	})
}

// A guest may want to be asked again at once, and give another status each time:
// it keeps neither the host busy nor the store.
// TestAScaleIsNoWayToFinalizers: who may write scales may not keep objects from
// being deleted.
func TestAScaleIsNoWayToFinalizers(t *testing.T) {
	t.Parallel()
	g := &guest{decide: func(_ *Object, children []Object) (*abi.ReconcileResult, error) {
		return &abi.ReconcileResult{Patch: []abi.Patch{{
			UID: string(children[0].Object.GetUID()), Patch: json.RawMessage(`{"metadata":{"finalizers":["x/y"]}}`), Subresource: "scale",
		}}}, nil
	}}
	mine := pod("mine", "web")
	mine.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "uid-web", Controller: new(true)}}
	fill := func(c *cluster) {
		c.put("replicasets.apps", set("web", 1))
		c.put("pods", mine)
	}
	drive(t, g, fill, func(c *cluster) {
		o, _ := c.store.Get(store.Key{Resource: "pods", Namespace: "default", Name: "mine"})
		if finalizers := o.GetFinalizers(); len(finalizers) > 0 {
			t.Errorf("it has finalizers %q", finalizers)
		}
	})
}

func TestWhatAGuestKeepsIsGivenBack(t *testing.T) {
	t.Parallel()
	var told []string
	g := &guest{decide: func(parent *Object, _ []Object) (*abi.ReconcileResult, error) {
		memory := string(parent.Fields[len(parent.Fields)-1])
		told = append(told, memory)
		switch len(told) {
		case 1:
			return &abi.ReconcileResult{Memory: json.RawMessage(`{"n":1}`), RequeueAfterNanos: 1}, nil
		case 2: // none leaves it
			return &abi.ReconcileResult{RequeueAfterNanos: 1}, nil
		}
		return &abi.ReconcileResult{}, nil
	}, parentFacts: []string{abi.FactMemory}}
	drive(t, g, func(c *cluster) { c.put("replicasets.apps", set("web", 1)) }, func(*cluster) {
		if diff := cmp.Diff([]string{"", `{"n":1}`, `{"n":1}`}, told); diff != "" {
			t.Errorf("it was told (-want +got):\n%s", diff)
		}
	})
}

func TestAGuestThatIsNeverContentIsAskedNowAndThen(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]int64{"by asking": 1, "by its status": 0} {
		var asked atomic.Int32
		g := &guest{decide: func(*Object, []Object) (*abi.ReconcileResult, error) {
			n := asked.Add(1)
			if again > 0 {
				return &abi.ReconcileResult{RequeueAfterNanos: again}, nil
			}
			return &abi.ReconcileResult{Status: json.RawMessage(fmt.Sprintf(`{"replicas":%d}`, n%1000))}, nil
		}}
		drive(t, g, func(c *cluster) { c.put("replicasets.apps", set("web", 3)) }, func(*cluster) {
			if n := asked.Load(); n < 5 || n > 2*burst {
				t.Errorf("%s it was asked %d times in two seconds, want %d at first and then now and then", name, n, burst)
			}
		})
	}
}

// A set that goes on pod by pod waits for nodes, not for its own pace.
func TestWhatOthersDoIsAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	const wanted = 300
	g := &guest{decide: func(_ *Object, children []Object) (*abi.ReconcileResult, error) {
		for _, c := range children {
			if c.Object.(*v1.Pod).Status.Phase != v1.PodRunning {
				return &abi.ReconcileResult{}, nil
			}
		}
		if len(children) == wanted {
			return &abi.ReconcileResult{}, nil
		}
		return &abi.ReconcileResult{Create: []abi.Creation{{Count: 1, Object: json.RawMessage(`{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"app":"web"}}}`)}}}, nil
	}}
	drive(t, g, func(c *cluster) {
		c.put("replicasets.apps", set("web", wanted))
		go func() { // a node, which runs each pod after a moment
			for tick := time.NewTicker(time.Millisecond); ; <-tick.C {
				list, err := c.store.List("pods", "", store.ListOptions{})
				if err != nil || len(list.Items) == wanted {
					return
				}
				for _, o := range list.Items {
					if p := o.(*v1.Pod); p.Status.Phase != v1.PodRunning {
						p = p.DeepCopy()
						p.Status.Phase = v1.PodRunning
						_, _, _ = c.store.Commit(c.t.Context(), store.Op{Kind: store.Update, Key: keyOf("pods", p), Object: p})
					}
				}
			}
		}()
	}, func(c *cluster) {
		if got := len(c.pods()); got != wanted {
			t.Errorf("%d pods after two seconds, want %d", got, wanted)
		}
	})
}

// What no longer matches a parent's selector was related to it until now.
func TestAnObjectThatIsNoLongerRelatedIsToldOf(t *testing.T) {
	t.Parallel()
	var related atomic.Int32
	g := &guest{
		related: []Kind{{APIVersion: "v1", Kind: "ConfigMap"}},
		besides: func(found []Object) { related.Store(int32(len(found))) },
		decide:  func(*Object, []Object) (*abi.ReconcileResult, error) { return &abi.ReconcileResult{}, nil },
	}
	drive(t, g, func(c *cluster) {
		c.put("replicasets.apps", set("web", 3))
		c.put("configmaps", &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "settings", Labels: map[string]string{"app": "web"}}})
	}, func(c *cluster) {
		if n := related.Load(); n != 1 {
			t.Fatalf("it was told of %d related objects, want 1", n)
		}
		_, err := c.store.Update(context.Background(), store.Key{Resource: "configmaps", Namespace: "default", Name: "settings"}, func(o store.Object) (store.Object, error) {
			next := o.DeepCopyObject().(store.Object)
			next.SetLabels(nil)
			return next, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if n := related.Load(); n != 0 {
			t.Errorf("it is still told of %d related objects", n)
		}
	})
}

// slow lists pods after a while, in which something happens.
type slow struct {
	Objects
	meanwhile func()
}

func (s slow) List(resource, namespace string, opts store.ListOptions) (store.List, error) {
	if resource == "pods" {
		time.Sleep(time.Second)
		s.meanwhile()
	}
	return s.Objects.List(resource, namespace, opts)
}

// What becomes of children while a driver starts is not lost.
func TestAChildThatComesWhileADriverStartsIsSeen(t *testing.T) {
	t.Parallel()
	var seen atomic.Int32
	g := &guest{decide: func(_ *Object, children []Object) (*abi.ReconcileResult, error) {
		seen.Store(int32(len(children)))
		return &abi.ReconcileResult{}, nil
	}}
	driveOver(t, g, func(c *cluster) Objects {
		return slow{c.store, sync.OnceFunc(func() { c.put("pods", pod("late", "web")) })}
	}, func(c *cluster) { c.put("replicasets.apps", set("web", 3)) }, func(*cluster) {
		if n := seen.Load(); n != 1 {
			t.Errorf("it knows of %d children, want 1", n)
		}
	})
}

// A reference may lead into another namespace, which has to be one that the guest
// may read.
func TestWhereAKindIsRead(t *testing.T) {
	t.Parallel()
	volume := &v1.PersistentVolume{Spec: v1.PersistentVolumeSpec{ClaimRef: &v1.ObjectReference{Namespace: "theirs", Name: "data"}}}
	for by, want := range map[string]string{abi.ByName: "theirs", abi.ByReference: "", abi.ByCluster: "", abi.ByNamespace: "own"} {
		parent := volume.DeepCopy()
		parent.Namespace = "own"
		w := kindWatch{kind: Kind{By: by, Path: "spec.claimRef"}}
		if got := w.readIn(parent); got != want {
			t.Errorf("by %s it is read in %q, want %q", by, got, want)
		}
	}
}
