package controller

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/store"
)

// owned is a pod that its set controls.
func owned(name, app string) store.Object {
	p := pod(name, app)
	p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set(app, 0), appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
	return p
}

func TestAnAnswerThatIsTooLargeIsDoneByParts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		have  int
		owned bool
		wants int32
	}{
		{"creations", 0, true, 20},
		{"deletions", 20, true, 0},
		{"adoptions", 20, false, 20},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := &guest{decide: func(parent *Object, children []Object) (*abi.ReconcileResult, error) {
				out, err := keep(parent, children)
				out.Status = json.RawMessage(fmt.Sprintf(`{"replicas":%d,"observedGeneration":1}`, tt.wants))
				return out, err
			}}
			drive(t, g, func(c *cluster) {
				c.takes = 7
				c.put("replicasets.apps", set("web", tt.wants))
				for i := range tt.have {
					o := store.Object(pod(fmt.Sprint("pod-", i), "web"))
					if tt.owned {
						o = owned(fmt.Sprint("pod-", i), "web")
					}
					c.put("pods", o)
				}
				c.after = func() {
					told := statusOf(c, "web")
					done := strings.Count(strings.Join(c.pods(), " "), "of web")
					if told.ObservedGeneration == 1 && done != int(tt.wants) {
						t.Errorf("the status is there with %d pods of %d", done, tt.wants)
					}
				}
			}, func(c *cluster) {
				got := c.pods()
				if n := strings.Count(strings.Join(got, " "), "of web"); n != int(tt.wants) || len(got) != n {
					t.Errorf("pods are %v, want %d of web", got, tt.wants)
				}
				if statusOf(c, "web").ObservedGeneration != 1 {
					t.Error("the status never came")
				}
			})
		})
	}
}

func statusOf(c *cluster, name string) appsv1.ReplicaSetStatus {
	o, ok := c.store.Get(store.Key{Resource: "replicasets.apps", Namespace: "default", Name: name})
	if !ok {
		return appsv1.ReplicaSetStatus{}
	}
	return o.(*appsv1.ReplicaSet).Status
}

func TestPatchesThatAreTooLargeFailTheirParentAlone(t *testing.T) {
	t.Parallel()
	asked := 0
	g := &guest{decide: func(parent *Object, children []Object) (*abi.ReconcileResult, error) {
		out := &abi.ReconcileResult{Status: json.RawMessage(`{"replicas":20}`)}
		for i := range children {
			out.Patch = append(out.Patch, abi.Patch{UID: string(children[i].Object.GetUID()), Patch: json.RawMessage(`{"metadata":{"labels":{"seen":"yes"}}}`)})
		}
		if len(children) > 0 {
			asked++
		}
		return out, nil
	}}
	drive(t, g, func(c *cluster) {
		c.takes = 7
		c.put("replicasets.apps", set("web", 20))
		c.put("replicasets.apps", set("other", 20))
		for i := range 20 {
			c.put("pods", owned(fmt.Sprint("pod-", i), "web"))
		}
	}, func(c *cluster) {
		if got := statusOf(c, "web"); got.Replicas != 0 {
			t.Errorf("the status tells of patches that were not done: %+v", got)
		}
		if got := statusOf(c, "other"); got.Replicas != 20 {
			t.Errorf("another parent has the status %+v, want its own", got)
		}
		if got := strings.Join(c.notes, "\n"); !strings.Contains(got, "no smaller part of it can be done alone: its 20 patches") {
			t.Errorf("notes %q, want what to do", got)
		}
		if asked > 12 {
			t.Errorf("asked %d times in 2 s, want it to back off", asked)
		}
	})
}

func TestWhatTakesTheNameOfWhatGoesComesAfterIt(t *testing.T) {
	t.Parallel()
	g := &guest{decide: func(_ *Object, children []Object) (*abi.ReconcileResult, error) {
		out := &abi.ReconcileResult{}
		for i := range children {
			if children[i].Object.GetLabels()["of"] == "" {
				out.Delete = append(out.Delete, abi.Deletion{UID: string(children[i].Object.GetUID())})
			}
		}
		if len(out.Delete) > 0 || len(children) == 0 {
			out.Create = []abi.Creation{
				{Count: 1, Object: json.RawMessage(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"one","labels":{"of":"now"}}}`)},
				{Count: 1, Object: json.RawMessage(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"two","labels":{"of":"now"}}}`)},
			}
		}
		return out, nil
	}}
	drive(t, g, func(c *cluster) {
		c.put("replicasets.apps", set("web", 1))
		c.put("pods", owned("one", "web"))
	}, func(c *cluster) {
		if diff := cmp.Diff([]string{"one of web", "two of web"}, c.pods()); diff != "" {
			t.Errorf("pods differ (-want +got):\n%s", diff)
		}
		o, _ := c.store.Get(store.Key{Resource: "pods", Namespace: "default", Name: "one"})
		if o == nil || o.GetLabels()["of"] != "now" {
			t.Errorf("%+v is there, want what takes its place", o)
		}
		if len(c.notes) > 0 {
			t.Errorf("notes %q, want none", c.notes)
		}
	})
}

func TestADeletionOfAChildIsOfItsUID(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		// meanwhile is what somebody does between the question and the answer.
		meanwhile func(c *cluster, asked int)
		want      []string
	}{
		{"one of many changes each time", func(c *cluster, asked int) {
			c.update("pods", "pod-3", func(o store.Object) { o.SetLabels(map[string]string{"app": "web", "asked": fmt.Sprint(asked)}) })
		}, nil},
		{"one is gone", func(c *cluster, _ int) {
			_, _, err := c.store.Commit(c.t.Context(), store.Op{Kind: store.Delete, Key: keyOf("pods", pod("pod-3", "web"))})
			if err != nil {
				t.Error(err)
			}
		}, nil},
		{"one is no longer the parent's", func(c *cluster, _ int) {
			c.update("pods", "pod-3", func(o store.Object) {
				o.SetOwnerReferences(nil)
				o.SetLabels(nil)
			})
		}, []string{"pod-3 of nobody"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var c *cluster
			asked := 0
			g := &guest{decide: func(_ *Object, children []Object) (*abi.ReconcileResult, error) {
				out := &abi.ReconcileResult{}
				for i := range children {
					out.Delete = append(out.Delete, abi.Deletion{UID: string(children[i].Object.GetUID())})
					if children[i].Object.GetName() == "pod-3" {
						asked++
						tt.meanwhile(c, asked)
					}
				}
				return out, nil
			}}
			drive(t, g, func(in *cluster) {
				c = in
				c.put("replicasets.apps", set("web", 0))
				for i := range 20 {
					c.put("pods", owned(fmt.Sprint("pod-", i), "web"))
				}
			}, func(*cluster) {
				if diff := cmp.Diff(tt.want, c.pods()); diff != "" {
					t.Errorf("pods differ (-want +got):\n%s", diff)
				}
				if asked != 1 {
					t.Errorf("asked %d times about it, want once", asked)
				}
			})
		})
	}
}
