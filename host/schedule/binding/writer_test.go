package binding_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/host/schedule"
	"github.com/berth-dev/berth/host/schedule/binding"
	"github.com/berth-dev/berth/host/schedule/policytest"
	"github.com/berth-dev/berth/host/store"

	v1 "k8s.io/api/core/v1"
)

func TestAVictimThatNobodyRunsGoesAtOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		node       string
		finalizers []string
		gone       bool
		grace      int64
	}{
		"its bind is under way":                     {"", nil, true, 0},
		"its bind is under way, and somebody holds": {"", []string{"example.com/hold"}, false, 0},
		"it runs": {"a", nil, false, 30},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, put := openStore(t)
			victim := put("pods", policytest.Pod("victim", "1", "1Gi", func(p *v1.Pod) {
				p.Spec.NodeName, p.Finalizers = c.node, c.finalizers
			})).(*v1.Pod)
			by := policytest.Pod("by", "1", "1Gi", nil)
			if err := binding.NewWriter(s, nil).Evict(t.Context(), []schedule.Eviction{{Victim: victim, By: by, Node: "a"}})[0]; err != nil {
				t.Fatal(err)
			}
			o, held := s.Get(store.Key{Resource: "pods", Namespace: victim.Namespace, Name: victim.Name})
			if held == c.gone {
				t.Fatalf("it is gone: %v, want %v", !held, c.gone)
			}
			if held && *o.GetDeletionGracePeriodSeconds() != c.grace {
				t.Errorf("it has %d seconds, want %d", *o.GetDeletionGracePeriodSeconds(), c.grace)
			}
		})
	}
}

// outage is an engine that answers nothing before a time; its first commit in the
// outage is written or not.
type outage struct {
	store.Engine
	until   time.Time
	written bool
	tried   bool
}

func (o *outage) Commit(ctx context.Context, b store.Batch) error {
	if !time.Now().Before(o.until) {
		return o.Engine.Commit(ctx, b)
	}
	first := !o.tried
	o.tried = true
	if first && o.written {
		if err := o.Engine.Commit(ctx, b); err != nil {
			return err
		}
	}
	return store.ErrUnavailable
}

func (o *outage) Scan(ctx context.Context, prefix string, keysOnly bool, fn func(store.Record) error) (int64, error) {
	if time.Now().Before(o.until) {
		return 0, store.ErrUnavailable
	}
	return o.Engine.Scan(ctx, prefix, keysOnly, fn)
}

// A bind of which nobody knows whether it was written is neither given up nor done
// twice.
func TestABindOutlastsAnOutage(t *testing.T) {
	t.Parallel()
	for name, written := range map[string]bool{"written": true, "not written": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				engine := &outage{Engine: store.NewMemory(), written: written}
				s, put := openStoreOn(t, engine)
				put("nodes", policytest.Node("a", "8", "8Gi", 110, nil))
				pod := put("pods", policytest.Pod("p", "1", "1Gi", nil)).(*v1.Pod)
				want := s.Revision() + 1
				engine.until = time.Now().Add(5 * time.Second)
				for _, err := range binding.NewWriter(s, nil).Bind(t.Context(), []schedule.Binding{{Pod: pod, Node: "a"}}) {
					if err != nil {
						t.Error(err)
					}
				}
				o, _ := s.Get(store.Key{Resource: "pods", Namespace: pod.Namespace, Name: pod.Name})
				if node := o.(*v1.Pod).Spec.NodeName; node != "a" || s.Revision() != want {
					t.Errorf("it is on %q at revision %d, want a at %d", node, s.Revision(), want)
				}
			})
		})
	}
}

// A writer that is told to end does not wait for the store.
func TestAWriterEndsInAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		engine := &outage{Engine: store.NewMemory()}
		s, put := openStoreOn(t, engine)
		put("nodes", policytest.Node("a", "8", "8Gi", 110, nil))
		pod := put("pods", policytest.Pod("p", "1", "1Gi", nil)).(*v1.Pod)
		engine.until = time.Now().Add(time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		err := binding.NewWriter(s, nil).Bind(ctx, []schedule.Binding{{Pod: pod, Node: "a"}})[0]
		if !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Bind() = %v, want ErrUnavailable", err)
		}
		engine.until = time.Now()
	})
}

// openStore opens a store, and returns what creates an object in it.
func openStore(t *testing.T) (*store.Store, func(resource string, o store.Object) store.Object) {
	t.Helper()
	return openStoreOn(t, store.NewMemory())
}

func openStoreOn(t *testing.T, engine store.Engine) (*store.Store, func(resource string, o store.Object) store.Object) {
	t.Helper()
	s, err := store.Open(t.Context(), engine, plain{}, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, func(resource string, o store.Object) store.Object {
		t.Helper()
		key := store.Key{Resource: resource, Namespace: o.GetNamespace(), Name: o.GetName()}
		_, objs, err := s.Commit(t.Context(), store.Op{Kind: store.Create, Key: key, Object: o})
		if err != nil {
			t.Fatal(err)
		}
		return objs[0]
	}
}

// Pods that are bound in one commit are told one by one: whoever has seen some
// of them bound, and asks for what comes after the last, is told of the others.
func TestAWatchGoesOnBetweenBindingsOfOneCommit(t *testing.T) {
	t.Parallel()
	s, put := openStore(t)
	put("nodes", policytest.Node("a", "8", "8Gi", 110, nil))
	const pods = 20
	list := make([]schedule.Binding, pods)
	for i := range list {
		list[i] = schedule.Binding{Node: "a", Pod: put("pods", policytest.Pod(fmt.Sprintf("p%02d", i), "100m", "64Mi", nil)).(*v1.Pod)}
	}
	from, commits := s.Revision(), s.Stats().Commits
	for i, err := range binding.NewWriter(s, nil).Bind(t.Context(), list) {
		if err != nil {
			t.Errorf("bind %d: %v", i, err)
		}
	}
	if n := s.Stats().Commits - commits; n != 1 {
		t.Errorf("%d commits, want all bindings in one", n)
	}
	var want, got []string
	for i := range pods {
		want = append(want, fmt.Sprintf("p%02d on a", i))
		ev := firstAfter(t, s, from)
		got = append(got, fmt.Sprintf("%s on %s", ev.Key.Name, ev.Object.(*v1.Pod).Spec.NodeName))
		from = ev.Revision
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("a watch that is cut after each event (-want +got):\n%s", d)
	}
}

// firstAfter is what a new watch from there shows first.
func firstAfter(t *testing.T, s *store.Store, from int64) store.Event {
	t.Helper()
	w, err := s.Watch("pods", "", from)
	if err != nil {
		t.Fatal(err)
	}
	nothing := make(chan time.Time)
	close(nothing)
	events, err := w.NextBefore(t.Context(), nothing)
	if err != nil || len(events) == 0 {
		t.Fatalf("a watch from %d shows %d events, %v", from, len(events), err)
	}
	return events[0]
}

// As Kubernetes' admission of bindings has it, where the scheduler's own say nothing
// of labels.
func TestABoundPodHasTheZoneAndRegionOfItsNode(t *testing.T) {
	t.Parallel()
	const zone, region = v1.LabelTopologyZone, v1.LabelTopologyRegion
	for name, c := range map[string]struct{ pod, node, want map[string]string }{
		"a node without either":  {map[string]string{"app": "a"}, map[string]string{"rack": "r"}, map[string]string{"app": "a"}},
		"a node with both":       {map[string]string{"app": "a"}, map[string]string{zone: "z", region: "r"}, map[string]string{"app": "a", zone: "z", region: "r"}},
		"a pod without labels":   {nil, map[string]string{zone: "z"}, map[string]string{zone: "z"}},
		"a pod that said others": {map[string]string{zone: "old", region: "mine"}, map[string]string{zone: "z"}, map[string]string{zone: "z", region: "mine"}},
		"an empty zone":          {nil, map[string]string{zone: ""}, map[string]string{zone: ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, put := openStore(t)
			put("nodes", policytest.Node("a", "8", "8Gi", 110, func(n *v1.Node) { n.Labels = c.node }))
			pod := put("pods", policytest.Pod("p", "1", "1Gi", func(p *v1.Pod) { p.Labels = c.pod })).(*v1.Pod)
			if err := binding.NewWriter(s, nil).Bind(t.Context(), []schedule.Binding{{Pod: pod, Node: "a"}})[0]; err != nil {
				t.Fatal(err)
			}
			o, _ := s.Get(store.Key{Resource: "pods", Namespace: pod.Namespace, Name: pod.Name})
			if d := cmp.Diff(c.want, o.GetLabels()); d != "" {
				t.Errorf("labels (-want +got):\n%s", d)
			}
			if d := cmp.Diff(c.pod, pod.Labels); d != "" {
				t.Errorf("the state from before was written to (-want +got):\n%s", d)
			}
		})
	}
}
