package node

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/host/store"
)

// fleet is a store of nodes without pods.
type fleet struct {
	Objects
	nodes []*v1.Node
}

func (f *fleet) Get(store.Key) (store.Object, bool) { return nil, false }

func (f *fleet) List(string, string, store.ListOptions) (store.List, error) {
	var list store.List
	for _, n := range f.nodes {
		list.Items = append(list.Items, n)
	}
	return list, nil
}

func (f *fleet) Indexed(string, string, string) []store.Object { return nil }

func (f *fleet) Update(_ context.Context, k store.Key, change func(store.Object) (store.Object, error)) (store.Object, error) {
	i := slices.IndexFunc(f.nodes, func(n *v1.Node) bool { return n.Name == k.Name })
	next, err := change(f.nodes[i])
	f.nodes[i] = next.(*v1.Node)
	return next, err
}

// evicting names the nodes that have the taint that evicts.
func (f *fleet) evicting() (names []string) {
	for _, n := range f.nodes {
		if evicts(n) {
			names = append(names, n.Name)
		}
	}
	return names
}

func (f *fleet) add(zone string, n int) {
	for i := range n {
		node := ready(v1.ConditionTrue)
		node.Name = fmt.Sprint(zone, i)
		node.UID, node.Labels = types.UID(node.Name), map[string]string{v1.LabelTopologyZone: zone}
		f.nodes = append(f.nodes, node)
	}
}

func TestNodesThatAreLostEvictAtAPace(t *testing.T) {
	t.Parallel()
	type step struct {
		after time.Duration
		// heard is how many of zone a and of zone b are heard of.
		a, b int
		want []string
	}
	for _, tt := range []struct {
		name  string
		a, b  int
		steps []step
	}{
		{"one that is lost", 3, 0, []step{{time.Minute, 2, 0, []string{"a2"}}, {time.Minute, 2, 0, []string{"a2"}}, {time.Second, 3, 0, nil}}},
		{"one each ten seconds", 4, 0, []step{
			{time.Minute, 2, 0, []string{"a2"}}, {time.Second, 2, 0, []string{"a2"}}, {10 * time.Second, 2, 0, []string{"a2", "a3"}},
		}},
		{"of each zone", 3, 3, []step{{time.Minute, 2, 2, []string{"a2", "b2"}}}},
		{"none where nobody is heard of", 1, 0, []step{{time.Minute, 0, 0, nil}, {time.Hour, 0, 0, nil}}},
		{"nor in several zones", 1, 2, []step{{time.Minute, 0, 0, nil}, {time.Hour, 0, 0, nil}}},
		{"who had the taint loses it then", 2, 0, []step{{time.Minute, 1, 0, []string{"a1"}}, {time.Minute, 0, 0, nil}, {time.Second, 1, 0, []string{"a1"}}}},
		{"a whole zone goes on at the usual pace", 2, 2, []step{{time.Minute, 0, 2, []string{"a0"}}, {10 * time.Second, 0, 2, []string{"a0", "a1"}}}},
		{"none of a small zone of which most are lost", 5, 1, []step{{time.Minute, 2, 1, nil}, {time.Hour, 2, 1, nil}, {time.Second, 3, 1, []string{"a3"}}}},
		{"few of a large one", 60, 0, []step{
			{time.Minute, 20, 0, []string{"a20"}}, {90 * time.Second, 20, 0, []string{"a20"}}, {10 * time.Second, 20, 0, []string{"a20", "a21"}},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			now, objects := start, &fleet{}
			objects.add("a", tt.a)
			objects.add("b", tt.b)
			c := New(Config{Objects: objects, Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler)})
			c.collected = now.Add(24 * time.Hour)
			c.sweep(t.Context())
			for i, s := range tt.steps {
				now = now.Add(s.after)
				for k, n := range objects.nodes {
					if k < tt.a && k >= s.a || k >= tt.a+s.b {
						continue
					}
					n = n.DeepCopy()
					n.Status.Conditions[0].Status, n.Status.Conditions[0].LastHeartbeatTime = v1.ConditionTrue, metav1.NewTime(now)
					objects.nodes[k] = n
				}
				c.sweep(t.Context())
				if diff := cmp.Diff(s.want, objects.evicting()); diff != "" {
					t.Errorf("step %d: nodes that evict differ (-want +got):\n%s", i, diff)
				}
			}
		})
	}
}

// A change of a node alone gives no taint that evicts: that no other is ready either
// is known when all have been looked at.
func TestANodeThatSaysItIsNotReadyEvictsWhenAllWereLookedAt(t *testing.T) {
	t.Parallel()
	objects := &fleet{}
	objects.add("a", 1)
	c := New(Config{Objects: objects, Now: func() time.Time { return start }, Log: slog.New(slog.DiscardHandler)})
	c.collected = start
	c.sweep(t.Context())
	objects.nodes[0] = objects.nodes[0].DeepCopy()
	objects.nodes[0].Status.Conditions[0].Status = v1.ConditionFalse
	c.look(t.Context(), []string{"a0"})
	c.sweep(t.Context())
	if got := objects.evicting(); got != nil {
		t.Errorf("the only node evicts: %v", got)
	}
}

// BenchmarkSweep is what 20,000 nodes at rest cost each second.
func BenchmarkSweep(b *testing.B) {
	objects := &fleet{}
	objects.add("a", 20_000)
	c := New(Config{Objects: objects, Now: func() time.Time { return start }, Log: slog.New(slog.DiscardHandler)})
	c.collected = start
	for b.Loop() {
		c.sweep(b.Context())
	}
}
