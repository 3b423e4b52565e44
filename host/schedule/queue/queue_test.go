package queue

import (
	"fmt"
	"testing"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/schedule/policytest"
	"github.com/berth-dev/berth/host/schedule/snapshot"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

const second = int64(1e9)

func pod(name string, priority int32) *snapshot.Pod { return podOf(name, "1", priority) }

func podOf(name, cpu string, priority int32) *snapshot.Pod {
	return snapshot.NewPod(policytest.Pod(name, cpu, "1Gi", func(p *v1.Pod) { p.Spec.Priority = &priority }))
}

func names(q *Queue, now int64) (list []string) {
	for e := q.Pop(now); e != nil; e = q.Pop(now) {
		list = append(list, e.Pod.Object.Name)
		q.Delete(e.Pod.UID())
	}
	return list
}

func TestPopsByPriorityThenByArrival(t *testing.T) {
	t.Parallel()
	q := New()
	for i, priority := range []int32{0, 5, 0, 5, -1} {
		q.Add(pod(fmt.Sprint(i), priority), 0)
	}
	if got, want := fmt.Sprint(names(q, 0)), "[1 3 0 2 4]"; got != want {
		t.Errorf("order = %s, want %s", got, want)
	}
}

func TestBackoffDoublesUpToItsBound(t *testing.T) {
	t.Parallel()
	q, now := New(), int64(0)
	q.Add(pod("a", 0), now)
	for _, seconds := range []int64{1, 2, 4, 8, 10, 10} {
		e := q.Pop(now)
		q.Retry(e, now)
		if at, ok := q.Next(); !ok || at != now+seconds*second {
			t.Fatalf("attempt %d waits until %d, want %d", e.Attempts, at, now+seconds*second)
		}
		if q.Pop(now+seconds*second-1) != nil {
			t.Fatalf("attempt %d came before its time", e.Attempts)
		}
		now += seconds * second
	}
}

func TestWakesOnlyWhoAChangeCouldHelp(t *testing.T) {
	t.Parallel()
	c := snapshot.New(0)
	small := policytest.Node("small", "500m", "4Gi", 10, nil)
	c.UpsertNode(small)
	full := pod("full", 0)
	c.UpsertNode(policytest.Node("a", "1", "4Gi", 10, nil))
	c.Place(full, "a")
	terms := snapshot.NewPod(policytest.Pod("terms", "1", "1Gi", func(p *v1.Pod) {
		p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{}}
	}))
	tests := []struct {
		name   string
		groups abi.Groups
		spread bool
		change func()
		wakes  bool
	}{
		{"a pod that comes takes room", abi.NodeUsage | abi.NodeCapacity, false, func() { c.Place(pod("x", 0), "small") }, false},
		{"a pod that comes helps who looks for pods", abi.Pods, true, func() { c.Place(pod("y", 0), "small") }, true},
		{"a label helps who selects nodes, where there is room", abi.NodeLabels, false, func() {
			c.UpsertNode(policytest.Node("b", "4", "4Gi", 10, nil))
		}, true},
		{"a label does not help where there is no room", abi.NodeLabels, false, func() {
			c.UpsertNode(policytest.Node("small", "500m", "4Gi", 10, func(n *v1.Node) { n.Labels["new"] = "yes" }))
		}, false},
		{"a service does not help who waits for volumes", abi.Volumes, true, func() { c.UpsertObject("services", &v1.Service{}) }, false},
		{"a volume helps who waits for volumes", abi.Volumes, true, func() { c.UpsertObject("persistentvolumes", &v1.PersistentVolume{}) }, true},
		{"a pod that goes makes room", abi.NodeUsage, false, func() { c.Remove(full.UID()) }, true},
		{"a new node helps everybody", 0, false, func() { c.UpsertNode(policytest.Node("c", "4", "4Gi", 10, nil)) }, true},
		{"so does one on which a pod with terms counts at once", 0, false, func() {
			c.Place(terms, "d")
			c.UpsertNode(policytest.Node("d", "4", "4Gi", 10, nil))
		}, true},
	}
	for _, tt := range tests {
		q := New()
		q.Follow(c, 0)
		q.Add(pod("waits", 0), 0)
		q.Wait(q.Pop(0), tt.groups, tt.spread, 0)
		tt.change()
		q.Follow(c, 20*second)
		if _, _, waiting, _, _ := q.Len(); (waiting == 0) != tt.wakes {
			t.Errorf("%s: woken %v, want %v", tt.name, waiting == 0, tt.wakes)
		}
	}
}

func TestAPodThatGoesWakesWhoCouldPreemptTheOthers(t *testing.T) {
	t.Parallel()
	never := v1.PreemptNever
	meek := snapshot.NewPod(policytest.Pod("meek", "1", "1Gi", func(p *v1.Pod) {
		p.Spec.Priority, p.Spec.PreemptionPolicy = ptr.To[int32](1), &never
	}))
	tests := []struct {
		name      string
		waits     *snapshot.Pod
		nominated string
		other     int32
		wakes     bool
	}{
		{"a more important one", pod("waits", 1), "", 0, true},
		{"one of priority 0 where the other's is below", pod("waits", 0), "", -10, true},
		{"not one as important as the other", pod("waits", 0), "", 0, false},
		{"not one too large without the other, too", podOf("waits", "3", 1), "", 0, false},
		{"not one that never preempts", meek, "", 0, false},
		{"not one for which room is being made elsewhere", pod("waits", 1), "b", 0, false},
		{"one for which room is being made there", podOf("waits", "3", 1), "a", 0, true},
	}
	for _, tt := range tests {
		c, q := snapshot.New(0), New()
		c.UpsertNode(policytest.Node("a", "2", "4Gi", 10, nil))
		goes := podOf("goes", "500m", 5)
		c.Place(goes, "a")
		c.Place(podOf("other", "1500m", tt.other), "a")
		q.Follow(c, 0)
		q.Add(tt.waits, 0).Nominated = tt.nominated
		q.Wait(q.Pop(0), abi.NodeUsage, false, 0)
		c.Remove(goes.UID())
		q.Follow(c, 20*second)
		if _, _, waiting, _, _ := q.Len(); (waiting == 0) != tt.wakes {
			t.Errorf("%s: woken %v, want %v", tt.name, waiting == 0, tt.wakes)
		}
	}
}

func TestAnIdleSchedulerTriesWokenPodsEarly(t *testing.T) {
	t.Parallel()
	c, q := snapshot.New(0), New()
	q.Add(pod("failed", 0), 0)
	q.Retry(q.Pop(0), 0)
	q.Add(pod("waits", 0), 0)
	q.Wait(q.Pop(0), abi.NodeUsage, false, 0)
	c.UpsertNode(policytest.Node("a", "4", "4Gi", 10, nil))
	q.Follow(c, 1)
	if got := fmt.Sprint(names(q, 1)); got != "[waits]" {
		t.Errorf("tried %s, want the woken one and not the one that failed", got)
	}
}

func TestForgetsAPodThatIsDeletedInFlight(t *testing.T) {
	t.Parallel()
	q := New()
	q.Add(pod("a", 0), 0)
	e := q.Pop(0)
	q.Delete(e.Pod.UID())
	q.Retry(e, 0)
	q.Wait(e, abi.NodeUsage, false, 0)
	if active, backoff, waiting, gated, inFlight := q.Len(); active+backoff+waiting+gated+inFlight != 0 || !e.Gone() {
		t.Errorf("the queue still holds it: %d %d %d %d %d", active, backoff, waiting, gated, inFlight)
	}
}

func TestTriesAgainAtLastWithoutAnyChange(t *testing.T) {
	t.Parallel()
	q := New()
	q.Add(pod("a", 0), 0)
	q.Wait(q.Pop(0), abi.NodeLabels, false, 0)
	if q.Pop(maxWaiting-1) != nil || q.Pop(maxWaiting) == nil {
		t.Error("a pod that nothing woke is not tried after its time, or before")
	}
}

func TestTriesAgainSoonerWhereTimeItselfMayHelp(t *testing.T) {
	t.Parallel()
	q := New()
	q.Add(pod("a", 0), 0)
	q.Wait(q.Pop(0), abi.NodeLabels|abi.Time, false, 0)
	if q.Pop(maxTimed-1) != nil || q.Pop(maxTimed) == nil {
		t.Error("a pod that waits for a time is not tried after a while, or before")
	}
}
