package binding_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/host/polltest"
	"github.com/berth-dev/berth/host/schedule"
	"github.com/berth-dev/berth/host/schedule/binding"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/policytest"
	"github.com/berth-dev/berth/host/store"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// plain is a codec for the kinds of these tests.
type plain struct{}

func (plain) Encode(o store.Object) ([]byte, error) { return json.Marshal(o) }

func (plain) Decode(name string, data []byte) (store.Object, error) {
	var o store.Object
	switch name {
	case "pods":
		o = &v1.Pod{}
	case "nodes":
		o = &v1.Node{}
	case "events":
		o = &v1.Event{}
	case "persistentvolumes":
		o = &v1.PersistentVolume{}
	case "persistentvolumeclaims":
		o = &v1.PersistentVolumeClaim{}
	case "storageclasses.storage.k8s.io":
		o = &storagev1.StorageClass{}
	default:
		return nil, fmt.Errorf("no codec for %s", name)
	}
	return o, json.Unmarshal(data, o)
}

// host is a store with a scheduler over it.
type host struct {
	t     *testing.T
	store *store.Store
	s     *schedule.Scheduler
	notes *notes
	set   atomic.Pointer[framework.LiveSet]
	// swapped is told when set was replaced.
	swapped chan struct{}
}

type notes struct {
	mu   sync.Mutex
	list []string
}

func (n *notes) Event(pod *v1.Pod, _, reason, message string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list = append(n.list, fmt.Sprintf("%s %s: %s", pod.Name, reason, message))
}

func start(t *testing.T) *host {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s, err := store.Open(ctx, store.NewMemory(), plain{}, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h := &host{t: t, store: s, notes: &notes{}, swapped: make(chan struct{}, 1)}
	reasons := framework.NewReasons(0)
	h.set.Store(policytest.Set(1, policytest.Default(reasons)))
	h.s, err = schedule.New(schedule.Config{
		Source: binding.NewSource(s), Binder: binding.NewWriter(s, nil), Recorder: h.notes,
		Set: h.set.Load, Swapped: h.swapped, Reasons: reasons,
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- h.s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run() = %v", err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func (h *host) create(resource string, objects ...store.Object) {
	h.t.Helper()
	for _, o := range objects {
		key := store.Key{Resource: resource, Namespace: o.GetNamespace(), Name: o.GetName()}
		if _, _, err := h.store.Commit(h.t.Context(), store.Op{Kind: store.Create, Key: key, Object: o}); err != nil {
			h.t.Fatal(err)
		}
	}
}

func (h *host) pod(name string) *v1.Pod {
	o, ok := h.store.Get(store.Key{Resource: "pods", Namespace: "default", Name: name})
	if !ok {
		return nil
	}
	return o.(*v1.Pod)
}

// eventually waits until a pod is as wanted.
func (h *host) eventually(name, what string, is func(*v1.Pod) bool) *v1.Pod {
	h.t.Helper()
	var p *v1.Pod
	if !polltest.Within(time.Minute, func() bool { p = h.pod(name); return p != nil && is(p) }) {
		h.t.Fatalf("pod %s is not %s in time: %+v", name, what, p)
	}
	return p
}

func isBound(p *v1.Pod) bool { return p.Spec.NodeName != "" }

func scheduled(p *v1.Pod) *v1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == v1.PodScheduled {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

func TestBindsPodsDurably(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := start(t)
		h.create("nodes", policytest.Node("a", "4", "8Gi", 110, nil), policytest.Node("b", "4", "8Gi", 110, nil))
		for i := range 60 {
			h.create("pods", policytest.Pod(fmt.Sprint("p", i), "100m", "64Mi", nil))
		}
		on := map[string]int{}
		for i := range 60 {
			p := h.eventually(fmt.Sprint("p", i), "bound", isBound)
			on[p.Spec.NodeName]++
			if c := scheduled(p); c == nil || c.Status != v1.ConditionTrue {
				t.Errorf("pod %s has condition %v, want PodScheduled True", p.Name, c)
			}
		}
		if on["a"] != 30 || on["b"] != 30 {
			t.Errorf("pods by node = %v, want 30 each", on)
		}
	})
}

func TestTellsWhyAPodWaitsAndTriesAgainWhenANodeComes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := start(t)
		h.create("nodes", policytest.Node("small", "1", "8Gi", 110, nil), policytest.Node("full", "8", "8Gi", 0, nil))
		h.create("pods", policytest.Pod("big", "3", "64Mi", nil))
		p := h.eventually("big", "refused by both", func(p *v1.Pod) bool {
			return scheduled(p) != nil && strings.Contains(scheduled(p).Message, "0/2 nodes")
		})
		want := "0/2 nodes are available: 1 Insufficient cpu, 1 Too many pods. preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod."
		if c := scheduled(p); c.Status != v1.ConditionFalse || c.Reason != v1.PodReasonUnschedulable || c.Message != want {
			t.Errorf("condition = %s %s %q, want False Unschedulable %q", c.Status, c.Reason, c.Message, want)
		}
		h.create("nodes", policytest.Node("large", "8", "8Gi", 110, nil))
		if p = h.eventually("big", "bound", isBound); p.Spec.NodeName != "large" {
			t.Errorf("bound to %s, want large", p.Spec.NodeName)
		}
	})
}

func TestPodsThatWaitAreTriedAgainWhenPoliciesChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := start(t)
		h.create("nodes", policytest.Node("a", "4", "8Gi", 110, func(n *v1.Node) {
			n.Spec.Taints = []v1.Taint{{Key: "kept", Effect: v1.TaintEffectNoSchedule}}
		}))
		h.create("pods", policytest.Pod("p", "1", "64Mi", nil))
		h.eventually("p", "refused by the taint", func(p *v1.Pod) bool {
			return scheduled(p) != nil && strings.Contains(scheduled(p).Message, "0/1 nodes")
		})
		// Nothing else happens from here on.
		h.set.Store(policytest.Set(2, &framework.Profile{Name: "default-scheduler"}))
		h.swapped <- struct{}{}
		h.eventually("p", "bound", isBound)
	})
}

func TestMakesRoomByPreemption(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := start(t)
		zero, high := int64(0), int32(10)
		h.create("nodes", policytest.Node("a", "4", "8Gi", 110, nil))
		for i := range 4 {
			h.create("pods", policytest.Pod(fmt.Sprint("low", i), "900m", "64Mi", func(p *v1.Pod) { p.Spec.TerminationGracePeriodSeconds = &zero }))
		}
		for i := range 4 {
			h.eventually(fmt.Sprint("low", i), "bound", isBound)
		}
		h.create("pods", policytest.Pod("high", "3", "64Mi", func(p *v1.Pod) { p.Spec.Priority = &high }))
		h.eventually("high", "bound", isBound)
		left := 0
		for i := range 4 {
			if h.pod(fmt.Sprint("low", i)) != nil {
				left++
			}
		}
		if left != 1 {
			t.Errorf("%d pods of low priority are left, want 1: no more may go than must", left)
		}
	})
}

func TestLeavesGatedAndForeignPodsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := start(t)
		h.create("nodes", policytest.Node("a", "4", "8Gi", 110, nil))
		h.create("pods",
			policytest.Pod("gated", "100m", "64Mi", func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "wait"}} }),
			policytest.Pod("foreign", "100m", "64Mi", func(p *v1.Pod) { p.Spec.SchedulerName = "other" }),
			policytest.Pod("mine", "100m", "64Mi", nil))
		h.eventually("mine", "bound", isBound)
		for _, name := range []string{"gated", "foreign"} {
			if p := h.pod(name); isBound(p) || len(p.Status.Conditions) > 0 {
				t.Errorf("pod %s was touched: %+v", name, p)
			}
		}
		_, err := h.store.Update(t.Context(), store.Key{Resource: "pods", Namespace: "default", Name: "gated"}, func(o store.Object) (store.Object, error) {
			p := o.(*v1.Pod).DeepCopy()
			p.Spec.SchedulingGates = nil
			return p, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		h.eventually("gated", "bound", isBound)
	})
}

func TestRoomIsGivenAwayOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := start(t)
		h.create("nodes", policytest.Node("a", "4", "8Gi", 110, nil))
		foreign := func(name, cpu string) *v1.Pod {
			return policytest.Pod(name, cpu, "64Mi", func(p *v1.Pod) { p.Spec.SchedulerName = "other" })
		}
		first, second := foreign("first", "3"), foreign("second", "2")
		h.create("pods", policytest.Pod("probe", "10m", "1Mi", nil), first, second)
		h.eventually("probe", "bound", isBound) // the scheduler knows the node
		done, err := h.s.Claim(t.Context(), first, "a")
		if err != nil {
			t.Fatalf("Claim() = %v, want 3 of 4 CPUs", err)
		}
		if _, err := h.s.Claim(t.Context(), second, "a"); !errors.Is(err, schedule.ErrNoRoom) || !strings.Contains(err.Error(), "Insufficient cpu") {
			t.Errorf("Claim() = %v, want ErrNoRoom for want of CPU", err)
		}
		h.create("pods", policytest.Pod("own", "2", "64Mi", nil))
		h.eventually("own", "refused: its CPUs are claimed", func(p *v1.Pod) bool {
			return scheduled(p) != nil && strings.Contains(scheduled(p).Message, "1 Insufficient cpu")
		})
		done(errors.New("the client's bind came to nothing"))
		h.eventually("own", "bound", isBound)
		if _, err := h.s.Claim(t.Context(), foreign("elsewhere", "100"), "unknown"); err != nil {
			t.Errorf("Claim() on a node that the scheduler does not know = %v, want no word on it", err)
		}
	})
}

func TestBindsVolumesTogetherWithThePod(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := start(t)
		wait := storagev1.VolumeBindingWaitForFirstConsumer
		h.create("storageclasses.storage.k8s.io", &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: "local"}, Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: &wait,
		})
		h.create("nodes", policytest.Node("a", "4", "8Gi", 110, nil))
		for i, size := range []string{"10Gi", "2Gi", "5Gi"} {
			h.create("persistentvolumes", volume(fmt.Sprint("v", i), size, "local"))
		}
		for i := range 3 {
			h.create("persistentvolumeclaims", claim(fmt.Sprint("c", i), "1Gi", "local"))
			h.create("pods", policytest.Pod(fmt.Sprint("p", i), "100m", "64Mi", func(p *v1.Pod) {
				p.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{
					PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: fmt.Sprint("c", i)},
				}}}
			}))
		}
		of := map[string]string{}
		for i := range 3 {
			h.eventually(fmt.Sprint("p", i), "bound", isBound)
			c := h.boundClaim(fmt.Sprint("c", i))
			if other := of[c.Spec.VolumeName]; other != "" || c.Spec.VolumeName == "" || c.Status.Phase != v1.ClaimBound {
				t.Errorf("claim %s has volume %q as %q has, phase %s", c.Name, c.Spec.VolumeName, other, c.Status.Phase)
			}
			of[c.Spec.VolumeName] = c.Name
		}
		if of["v1"] != "c0" {
			t.Errorf("claim c0 did not get the smallest volume: %v", of)
		}
	})
}

// boundClaim returns a claim whose pod is bound. A commit is one on disk, and
// shows itself resource by resource: the claim may come a moment after its pod.
func (h *host) boundClaim(name string) *v1.PersistentVolumeClaim {
	h.t.Helper()
	var claim *v1.PersistentVolumeClaim
	polltest.Until(h.t, fmt.Sprintf("claim %s is bound with its pod", name), func() bool {
		o, _ := h.store.Get(store.Key{Resource: "persistentvolumeclaims", Namespace: "default", Name: name})
		claim = o.(*v1.PersistentVolumeClaim)
		return claim.Spec.VolumeName != ""
	})
	return claim
}

func volume(name, size, class string) *v1.PersistentVolume {
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
		Spec: v1.PersistentVolumeSpec{
			Capacity: v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}, StorageClassName: class,
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
		},
		Status: v1.PersistentVolumeStatus{Phase: v1.VolumeAvailable},
	}
}

func claim(name, size, class string) *v1.PersistentVolumeClaim {
	return &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)},
		Spec: v1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}},
		},
		Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimPending},
	}
}
