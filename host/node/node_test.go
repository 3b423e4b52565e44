package node

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/host/store"
	"github.com/google/go-cmp/cmp"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func ready(status v1.ConditionStatus) *v1.Node {
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1"},
		Status:     v1.NodeStatus{Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: status}}},
	}
}

func TestConditions(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		silent  bool
		want    v1.ConditionStatus
		changed bool
	}{
		{"a node that renews its lease speaks for itself", false, v1.ConditionTrue, false},
		{"a silent node is unknown", true, v1.ConditionUnknown, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, changed := Conditions(ready(v1.ConditionTrue), tt.silent, start)
			if got[0].Status != tt.want || changed != tt.changed {
				t.Errorf("Conditions(silent %v) = %v, %v, want %v, %v", tt.silent, got[0].Status, changed, tt.want, tt.changed)
			}
		})
	}
}

// heldObjects is a store that holds one Lease at most.
type heldObjects struct {
	Objects
	lease *coordinationv1.Lease
}

func (h *heldObjects) Get(store.Key) (store.Object, bool) { return h.lease, h.lease != nil }

func TestANodeIsHeardByItsLeaseOrItsStatus(t *testing.T) {
	t.Parallel()
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	node, objects := ready(v1.ConditionTrue), &heldObjects{}
	c := New(Config{Objects: objects})
	for _, step := range []struct {
		name string
		do   func()
		now  int
		want int
	}{
		{"a node that was never met has its time from now on", func() {}, 0, 0},
		{"one that says nothing is not heard", func() {}, 30, 0},
		{"its status is a sign of life", func() { node.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(at(-99)) }, 40, 40},
		{"the same status again is none", func() {}, 50, 40},
		{"its Lease is a sign of life", func() {
			renewed := metav1.NewMicroTime(at(-50))
			objects.lease = &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &renewed}}
		}, 60, 60},
		{"the same Lease again is none", func() {}, 70, 60},
		{"what this host made of its conditions is none", func() {
			node.Status.Conditions, _ = Conditions(node, true, at(75))
		}, 80, 60},
	} {
		node = node.DeepCopy()
		step.do()
		h := c.hear(node, at(step.now))
		if !h.at.Equal(at(step.want)) {
			t.Errorf("%s: heard at %s, want %s", step.name, h.at.Sub(start), at(step.want).Sub(start))
		}
	}
}

// cluster is a store of one node and one pod on it.
type cluster struct {
	Objects
	node *v1.Node
	pod  *v1.Pod
	// fails is how many writes of the pod fail.
	fails int
}

func (c *cluster) Get(store.Key) (store.Object, bool) { return nil, false }

func (c *cluster) List(string, string, store.ListOptions) (store.List, error) {
	return store.List{Items: []store.Object{c.node}}, nil
}

func (c *cluster) Indexed(string, string, string) []store.Object { return []store.Object{c.pod} }

func (c *cluster) Update(_ context.Context, k store.Key, change func(store.Object) (store.Object, error)) (store.Object, error) {
	if k.Resource == "nodes" {
		next, err := change(c.node)
		c.node = next.(*v1.Node)
		return next, err
	}
	if c.fails > 0 {
		c.fails--
		return nil, errors.New("no disk")
	}
	next, err := change(c.pod)
	c.pod = next.(*v1.Pod)
	return next, err
}

func TestPodsOfALostNodeAreNotReady(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		node  v1.ConditionStatus
		fails int
		after time.Duration
		want  v1.ConditionStatus
	}{
		{"a node that is heard of speaks for its pods", v1.ConditionTrue, 0, time.Second, v1.ConditionTrue},
		{"also where it says that it is not ready", v1.ConditionFalse, 0, time.Second, v1.ConditionTrue},
		{"one that falls silent does not", v1.ConditionTrue, 0, time.Minute, v1.ConditionFalse},
		{"nor one that was lost before this host began", v1.ConditionUnknown, 0, 0, v1.ConditionFalse},
		{"what failed is tried again", v1.ConditionUnknown, 1, time.Second, v1.ConditionFalse},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			now, objects := start, &cluster{node: ready(tt.node), fails: tt.fails, pod: &v1.Pod{
				Spec:   v1.PodSpec{NodeName: "n1", Tolerations: []v1.Toleration{{Operator: v1.TolerationOpExists}}},
				Status: v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}},
			}}
			c := New(Config{Objects: objects, Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler)})
			c.collected = now
			c.sweep(t.Context())
			if now = now.Add(tt.after); tt.after > 0 {
				c.collected = now
				c.sweep(t.Context())
			}
			if got := objects.pod.Status.Conditions[0].Status; got != tt.want {
				t.Errorf("the pod's Ready is %s, want %s", got, tt.want)
			}
			objects.pod = objects.pod.DeepCopy()
			objects.pod.Status.Conditions[0].Status = v1.ConditionTrue
			c.sweep(t.Context())
			if got := objects.pod.Status.Conditions[0].Status; got != v1.ConditionTrue {
				t.Errorf("who writes the pod's Ready later is overruled: %s", got)
			}
		})
	}
}

func TestConditionsOfANodeThatNeverReported(t *testing.T) {
	t.Parallel()
	got, changed := Conditions(&v1.Node{}, true, start)
	if !changed || len(got) != len(watched) {
		t.Fatalf("Conditions() = %v, %v, want %d unknown conditions", got, changed, len(watched))
	}
	for _, c := range got {
		if c.Status != v1.ConditionUnknown || c.Reason != "NodeStatusNeverUpdated" {
			t.Errorf("condition %s = %s (%s), want Unknown (NodeStatusNeverUpdated)", c.Type, c.Status, c.Reason)
		}
	}
}

func TestTaints(t *testing.T) {
	t.Parallel()
	foreign := v1.Taint{Key: "team", Value: "a", Effect: v1.TaintEffectNoSchedule}
	tests := []struct {
		name string
		node func() *v1.Node
		want []string
	}{
		{"a ready node keeps foreign taints only", func() *v1.Node {
			n := ready(v1.ConditionTrue)
			n.Spec.Taints = []v1.Taint{foreign, {Key: v1.TaintNodeNotReady, Effect: v1.TaintEffectNoExecute}}
			return n
		}, []string{"team:NoSchedule"}},
		{"an unknown node is unreachable", func() *v1.Node { return ready(v1.ConditionUnknown) },
			[]string{"node.kubernetes.io/unreachable:NoSchedule", "node.kubernetes.io/unreachable:NoExecute"}},
		{"a node that is not ready says so", func() *v1.Node { return ready(v1.ConditionFalse) },
			[]string{"node.kubernetes.io/not-ready:NoSchedule", "node.kubernetes.io/not-ready:NoExecute"}},
		{"a cordoned node is unschedulable", func() *v1.Node {
			n := ready(v1.ConditionTrue)
			n.Spec.Unschedulable = true
			return n
		}, []string{"node.kubernetes.io/unschedulable:NoSchedule"}},
		{"pressure taints without evicting", func() *v1.Node {
			n := ready(v1.ConditionTrue)
			n.Status.Conditions = append(n.Status.Conditions, v1.NodeCondition{Type: v1.NodeDiskPressure, Status: v1.ConditionTrue})
			return n
		}, []string{"node.kubernetes.io/disk-pressure:NoSchedule"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			taints, _ := Taints(tt.node(), true, start)
			var got []string
			for _, x := range taints {
				got = append(got, x.Key+":"+string(x.Effect))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Taints() differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTaintsAreStable(t *testing.T) {
	t.Parallel()
	n := ready(v1.ConditionUnknown)
	n.Spec.Taints, _ = Taints(n, true, start)
	if _, changed := Taints(n, true, start.Add(time.Hour)); changed {
		t.Error("Taints() changes a node that has its taints already")
	}
}

func TestEvictAt(t *testing.T) {
	t.Parallel()
	added := metav1.NewTime(start)
	unreachable := v1.Taint{Key: v1.TaintNodeUnreachable, Effect: v1.TaintEffectNoExecute, TimeAdded: &added}
	seconds := func(s int64) *int64 { return &s }
	tests := []struct {
		name        string
		taints      []v1.Taint
		tolerations []v1.Toleration
		want        time.Duration
		ok          bool
	}{
		{"no taint, no eviction", nil, nil, 0, false},
		{"NoSchedule does not evict", []v1.Taint{{Key: "a", Effect: v1.TaintEffectNoSchedule}}, nil, 0, false},
		{"untolerated goes at once", []v1.Taint{unreachable}, nil, 0, true},
		{"tolerationSeconds count from the taint", []v1.Taint{unreachable},
			[]v1.Toleration{{Key: v1.TaintNodeUnreachable, Operator: v1.TolerationOpExists, TolerationSeconds: seconds(300)}}, 300 * time.Second, true},
		{"tolerated without end stays", []v1.Taint{unreachable},
			[]v1.Toleration{{Operator: v1.TolerationOpExists}}, 0, false},
		{"of two tolerations the first counts", []v1.Taint{unreachable},
			[]v1.Toleration{{Operator: v1.TolerationOpExists}, {Key: v1.TaintNodeUnreachable, Operator: v1.TolerationOpExists, TolerationSeconds: seconds(10)}}, 0, false},
		{"also if it is the shorter one", []v1.Taint{unreachable},
			[]v1.Toleration{{Key: v1.TaintNodeUnreachable, Operator: v1.TolerationOpExists, TolerationSeconds: seconds(10)}, {Operator: v1.TolerationOpExists}}, 10 * time.Second, true},
		{"negative seconds mean at once", []v1.Taint{unreachable},
			[]v1.Toleration{{Operator: v1.TolerationOpExists, TolerationSeconds: seconds(-5)}}, 0, true},
		{"another value is not tolerated", []v1.Taint{{Key: "a", Value: "x", Effect: v1.TaintEffectNoExecute, TimeAdded: &added}},
			[]v1.Toleration{{Key: "a", Value: "y"}}, 0, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			pod := &v1.Pod{Spec: v1.PodSpec{Tolerations: tt.tolerations}}
			at, ok := EvictAt(pod, tt.taints, func(*v1.Taint) time.Time { return start })
			if ok != tt.ok || ok && at.Sub(start) != tt.want {
				t.Errorf("EvictAt() = %v, %v, want %v, %v", at.Sub(start), ok, tt.want, tt.ok)
			}
		})
	}
}

// removed is a pod that was removed at once and is held.
func removed(phase v1.PodPhase) v1.Pod {
	gone, now := metav1.NewTime(start), int64(0)
	return v1.Pod{
		ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &gone, DeletionGracePeriodSeconds: &now, Finalizers: []string{"a/b"}},
		Status:     v1.PodStatus{Phase: phase},
	}
}

func TestAbandoned(t *testing.T) {
	t.Parallel()
	gone := metav1.NewTime(start)
	out := &v1.Node{Spec: v1.NodeSpec{Taints: []v1.Taint{{Key: v1.TaintNodeOutOfService, Effect: v1.TaintEffectNoExecute}}}}
	serving := ready(v1.ConditionTrue)
	serving.Spec = out.Spec
	tests := []struct {
		name string
		pod  v1.Pod
		node *v1.Node
		want bool
	}{
		{"a pod on a living node stays", v1.Pod{Spec: v1.PodSpec{NodeName: "n"}}, &v1.Node{}, false},
		{"a pod whose node is gone goes", v1.Pod{Spec: v1.PodSpec{NodeName: "n"}}, nil, true},
		{"a waiting pod stays", v1.Pod{}, nil, false},
		{"a terminating pod that was never bound goes", v1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &gone}}, nil, true},
		{"a terminating pod on a node out of service goes", v1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &gone}, Spec: v1.PodSpec{NodeName: "n"}}, out, true},
		{"its node ends it where that is ready all the same", v1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &gone}, Spec: v1.PodSpec{NodeName: "n"}}, serving, false},
		{"a running pod on a node out of service stays until it is evicted", v1.Pod{Spec: v1.PodSpec{NodeName: "n"}}, out, false},
		{"one that only finalizers hold goes once", removed(v1.PodPending), nil, true},
		{"and not again", removed(v1.PodFailed), nil, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := Abandoned(&tt.pod, tt.node); (got != "") != tt.want {
				t.Errorf("Abandoned() = %q, want removal %v", got, tt.want)
			}
		})
	}
}

func TestFreeRange(t *testing.T) {
	t.Parallel()
	prefix := netip.MustParsePrefix
	tests := []struct {
		name    string
		cluster string
		taken   []string
		want    string
	}{
		{"the first part comes first", "10.85.0.0/16", nil, "10.85.0.0/24"},
		{"what is taken is passed over", "10.85.0.0/16", []string{"10.85.0.0/24", "10.85.2.0/24"}, "10.85.1.0/24"},
		{"a full range gives nothing", "10.85.0.0/23", []string{"10.85.0.0/24", "10.85.1.0/24"}, ""},
		{"a small range is given whole", "10.85.0.0/26", nil, "10.85.0.0/26"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			taken := map[netip.Prefix]bool{}
			for _, p := range tt.taken {
				taken[prefix(p)] = true
			}
			got, ok := FreeRange(prefix(tt.cluster), taken)
			if ok != (tt.want != "") || ok && got != prefix(tt.want) {
				t.Errorf("FreeRange(%s) = %v, %v, want %s", tt.cluster, got, ok, tt.want)
			}
		})
	}
}

// TestTaintsHaveWholeSeconds: as everybody reads them, so that nobody who writes
// the node changes them.
func TestTaintsHaveWholeSeconds(t *testing.T) {
	t.Parallel()
	node := &v1.Node{Status: v1.NodeStatus{Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionUnknown}}}}
	taints, _ := Taints(node, true, time.Date(2026, 1, 2, 3, 4, 5, 678_901_234, time.UTC))
	for _, taint := range taints {
		if taint.TimeAdded != nil && taint.TimeAdded.Nanosecond() != 0 {
			t.Errorf("%s was added at %v", taint.ToString(), taint.TimeAdded.Time)
		}
	}
}

func TestOfPodsThatHaveEndedTheOldestGo(t *testing.T) {
	t.Parallel()
	pod := func(name string, phase v1.PodPhase, age time.Duration, reason string) *v1.Pod {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(start.Add(-age))}}
		p.Status.Phase, p.Status.Reason = phase, reason
		return p
	}
	goes := pod("goes", v1.PodFailed, 9*time.Hour, "")
	goes.DeletionTimestamp = &metav1.Time{Time: start}
	pods := []*v1.Pod{
		pod("running", v1.PodRunning, 8*time.Hour, ""), goes,
		pod("new", v1.PodSucceeded, time.Minute, ""), pod("old", v1.PodFailed, 3*time.Hour, "DeadlineExceeded"),
		pod("b", v1.PodSucceeded, time.Hour, ""), pod("a", v1.PodSucceeded, time.Hour, ""), pod("evicted", v1.PodFailed, time.Second, "Evicted"),
	}
	for kept, want := range map[int]string{0: "", 1: "evicted old a b", 2: "evicted old a", 4: "evicted", 5: "", 6: ""} {
		var names []string
		for _, p := range surplus(pods, kept) {
			names = append(names, p.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("of five with %d kept %q go, want %q", kept, got, want)
		}
	}
	removed := &removals{}
	c := New(Config{Objects: podList{pods: pods}, Remover: removed, EndedPods: 3, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	c.collect(t.Context())
	if got := strings.Join(removed.collected, " "); got != "goes evicted old" { // goes is on no node
		t.Errorf("the controller removes %q", got)
	}
}

// podList is a store of pods alone.
type podList struct {
	Objects
	pods []*v1.Pod
}

func (l podList) List(string, string, store.ListOptions) (all store.List, err error) {
	for _, p := range l.pods {
		all.Items = append(all.Items, p)
	}
	return all, nil
}

func (podList) Get(store.Key) (store.Object, bool) { return nil, false }

// removals are what a controller takes away.
type removals struct{ evicted, collected []string }

func (r *removals) Evict(_ context.Context, p *v1.Pod, _, _ string) error {
	r.evicted = append(r.evicted, p.Name)
	return nil
}

func (r *removals) Collect(_ context.Context, p *v1.Pod, _ string) error {
	r.collected = append(r.collected, p.Name)
	return nil
}

func TestTolerationsCountFromWhenPodAndTaintMet(t *testing.T) {
	t.Parallel()
	minute, long := int64(60), metav1.NewTime(start.Add(-time.Hour))
	for _, tt := range []struct {
		name  string
		taint v1.Taint
	}{
		{"a taint that does not say since when it is there", v1.Taint{Key: "maintenance", Effect: v1.TaintEffectNoExecute}},
		{"one that was there long before the pod", v1.Taint{Key: "maintenance", Effect: v1.TaintEffectNoExecute, TimeAdded: &long}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			now, gone := start, &removals{}
			objects := &cluster{node: ready(v1.ConditionTrue), pod: &v1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "p", CreationTimestamp: metav1.NewTime(start)},
				Spec:       v1.PodSpec{NodeName: "n1", Tolerations: []v1.Toleration{{Key: "maintenance", Operator: v1.TolerationOpExists, TolerationSeconds: &minute}}},
			}}
			c := New(Config{Objects: objects, Remover: gone, Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler)})
			c.collected = start.Add(time.Hour)
			step := func(after time.Duration, want ...string) {
				t.Helper()
				now = now.Add(after)
				objects.node = objects.node.DeepCopy()
				objects.node.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(now)
				c.sweep(t.Context())
				if diff := cmp.Diff(want, gone.evicted); diff != "" {
					t.Errorf("%v later: evicted (-want +got):\n%s", now.Sub(start), diff)
				}
			}
			objects.node.Spec.Taints = []v1.Taint{tt.taint}
			step(0)
			step(59 * time.Second)
			step(time.Second, "p")
		})
	}
}

// lonely is a store of a pod and, at times, its node.
type lonely struct {
	cluster
	there bool
}

func (l *lonely) Get(k store.Key) (store.Object, bool) {
	return l.node, l.there && k.Resource == "nodes"
}

func (l *lonely) List(string, string, store.ListOptions) (store.List, error) {
	return store.List{Items: []store.Object{l.pod}}, nil
}

func TestPodsOutliveANodeThatIsAwayForAMoment(t *testing.T) {
	t.Parallel()
	now, gone := start, &removals{}
	objects := &lonely{cluster: cluster{node: ready(v1.ConditionTrue), pod: &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: v1.PodSpec{NodeName: "n1"},
	}}}
	c := New(Config{Objects: objects, Remover: gone, Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler)})
	for _, step := range []struct {
		after time.Duration
		there bool
		want  []string
	}{
		{0, true, nil},
		{20 * time.Second, false, nil},
		{20 * time.Second, true, nil},
		{20 * time.Second, false, nil},
		{39 * time.Second, false, nil},
		{time.Second, false, []string{"p"}},
	} {
		now, objects.there = now.Add(step.after), step.there
		c.collect(t.Context())
		if diff := cmp.Diff(step.want, gone.collected); diff != "" {
			t.Errorf("after %v: collected (-want +got):\n%s", now.Sub(start), diff)
		}
	}
}
