package schedule

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/policytest"
	"github.com/berth-dev/berth/host/schedule/snapshot"
	"github.com/berth-dev/berth/host/schedule/volumes"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestHoldsThroughEverything lets a core run against a world of its own that
// changes at random: nodes come and go, pods are made and deleted at any
// moment, policies are swapped and fail, binds are late or fail, and news of
// each kind of object comes when it will. Whatever happens, nothing is
// overcommitted, no predicate is broken at commit, no pod is lost or bound
// twice, and no volume is had by two claims.
func TestHoldsThroughEverything(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, seed)
			w.live(1000)
			w.settle()
		})
	}
}

// TestIsDeterministic runs the same history twice.
func TestIsDeterministic(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		var runs [2][]string
		for i := range runs {
			w := newWorld(t, seed+1000)
			w.live(800)
			runs[i] = w.decisions
		}
		if len(runs[0]) == 0 || !slices.Equal(runs[0], runs[1]) {
			t.Errorf("seed %d: two runs of one history made other decisions (%d and %d)", seed, len(runs[0]), len(runs[1]))
		}
	}
}

// world is the truth that a store would hold, and what the core has not been
// told of it yet.
type world struct {
	t    *testing.T
	r    *rand.Rand
	core *core
	now  time.Time
	set  *framework.LiveSet

	nodes   map[string]*v1.Node
	pods    map[types.UID]*v1.Pod
	claims  map[string]*v1.PersistentVolumeClaim
	volumes map[string]*v1.PersistentVolume
	// news are events on their way, by kind: each kind keeps its order.
	news map[string][]Event
	// inFlight are bindings handed over and not committed.
	inFlight  []Binding
	n         int
	broken    bool
	decisions []string
	boundTo   map[types.UID]string
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{
		t: t, r: rand.New(rand.NewPCG(seed, 7)), now: time.Unix(1e9, 0),
		nodes: map[string]*v1.Node{}, pods: map[types.UID]*v1.Pod{}, claims: map[string]*v1.PersistentVolumeClaim{},
		volumes: map[string]*v1.PersistentVolume{}, news: map[string][]Event{}, boundTo: map[types.UID]string{},
	}
	reasons := framework.NewReasons(0)
	w.swap(reasons)
	w.core = newCore(Config{
		Set: func() *framework.LiveSet { return w.set }, Reasons: reasons, Seed: seed, MemoryBytes: 1 << 20,
		Clock: func() time.Time { return w.now }, LogBytes: 1 << 16,
		OnDivergence: func(d Divergence) { t.Errorf("impure: %+v", d) },
	})
	wait := storagev1.VolumeBindingWaitForFirstConsumer
	w.tell("storageclasses.storage.k8s.io", false, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "local"}, Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: &wait,
	})
	for range 4 {
		w.addNode()
	}
	return w
}

func (w *world) swap(reasons *framework.Reasons) {
	p := policytest.Default(reasons)
	fits := p.Predicates[3].Policy.(*policytest.Native)
	fits.Fail = func() error {
		if w.broken && w.r.IntN(3) == 0 {
			return policytest.ErrBroken
		}
		return nil
	}
	number := int64(1)
	if w.set != nil {
		number = w.set.Number + 1
	}
	w.set = policytest.Set(number, p)
}

func (w *world) tell(kind string, deleted bool, o snapshot.Object) {
	w.news[kind] = append(w.news[kind], Event{Resource: kind, Deleted: deleted, Object: o})
}

// live makes n random moves.
func (w *world) live(n int) {
	for range n {
		w.now = w.now.Add(time.Duration(w.r.IntN(200)) * time.Millisecond)
		w.move()
		w.check()
	}
}

func (w *world) move() {
	switch w.r.IntN(20) {
	case 0:
		w.addNode()
	case 1:
		w.removeNode()
	case 2:
		w.relabelNode()
	case 3, 4, 5:
		w.addPod()
	case 6:
		w.deletePod()
	case 7:
		w.addVolume()
	case 8:
		if w.r.IntN(8) == 0 {
			w.swap(w.core.reasons)
		}
	case 9:
		w.broken = !w.broken
	case 10, 11, 12:
		w.deliver()
	case 13, 14:
		w.handOver()
	case 15:
		w.commit()
	case 16:
		w.evict()
	default:
		w.step()
	}
}

// step makes one decision and notes it.
func (w *world) step() {
	if !w.core.step(context.Background()) {
		return
	}
	if last := w.core.traces.Last(1); len(last) == 1 {
		w.decisions = append(w.decisions, fmt.Sprint(last[0].Name, last[0].Outcome, last[0].Node, last[0].Total, last[0].Set))
	}
}

// deliver tells the core some news of some kinds.
func (w *world) deliver() {
	kinds := make([]string, 0, len(w.news))
	for kind := range w.news {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	for _, kind := range kinds {
		list := w.news[kind]
		if len(list) == 0 || w.r.IntN(3) == 0 {
			continue
		}
		n := 1 + w.r.IntN(len(list))
		w.core.apply(list[:n], w.now.UnixNano())
		w.news[kind] = list[n:]
	}
}

// handOver takes bindings as a binder does; nodes as the core knows them now
// must satisfy the predicates.
func (w *world) handOver() {
	for _, b := range w.core.takeBindings(1+w.r.IntN(8), w.now.UnixNano()) {
		slot, ok := w.core.cluster.Slot(b.Node)
		if !ok {
			w.t.Fatalf("pod %s is handed over for node %s, which is gone", b.Pod.Name, b.Node)
		}
		node := w.core.cluster.Row(slot).Node
		pod := snapshot.NewPod(b.Pod)
		for _, p := range []*policytest.Native{policytest.Taints(w.core.reasons), policytest.Selector(w.core.reasons)} {
			if why := p.Judge(nil, pod, w.core.cluster.Row(slot)); why != "" {
				w.t.Fatalf("pod %s is handed over for %s although %s", b.Pod.Name, node.Name, why)
			}
		}
		w.inFlight = append(w.inFlight, b)
	}
}

// commit ends some of the binds, well or badly, as a store would.
func (w *world) commit() {
	n := len(w.inFlight)
	if n == 0 {
		return
	}
	n = 1 + w.r.IntN(n)
	list := w.inFlight[:n]
	w.inFlight = slices.Clone(w.inFlight[n:])
	for _, b := range list {
		err := w.bind(b)
		if w.r.IntN(2) == 0 {
			w.deliver()
		}
		w.core.bound(b.Pod.UID, err, w.now.UnixNano())
	}
}

var errInjected = errors.New("disk is slow")

func (w *world) bind(b Binding) error {
	pod := w.pods[b.Pod.UID]
	if pod == nil {
		return errors.New("pod is gone")
	}
	if w.r.IntN(5) == 0 {
		return errInjected
	}
	if w.nodes[b.Node] == nil {
		return errors.New("node is gone")
	}
	if pod.Spec.NodeName != "" {
		w.t.Fatalf("pod %s is bound to %s and now to %s", pod.Name, pod.Spec.NodeName, b.Node)
	}
	for _, m := range b.Volumes {
		if err := w.join(m); err != nil {
			return err
		}
	}
	next := *pod
	next.Spec.NodeName = b.Node
	w.pods[pod.UID] = &next
	w.boundTo[pod.UID] = b.Node
	w.tell("pods", false, &next)
	return nil
}

func (w *world) join(m volumes.Match) error {
	volume, claim := w.volumes[m.Volume.Name], w.claims[m.Claim.Name]
	if ref := volume.Spec.ClaimRef; ref != nil && ref.Name != claim.Name {
		w.t.Fatalf("volume %s of claim %s is given to claim %s", volume.Name, ref.Name, claim.Name)
	}
	if claim.Spec.VolumeName != "" && claim.Spec.VolumeName != volume.Name {
		w.t.Fatalf("claim %s with volume %s gets volume %s too", claim.Name, claim.Spec.VolumeName, volume.Name)
	}
	v, c := volume.DeepCopy(), claim.DeepCopy()
	v.Spec.ClaimRef = &v1.ObjectReference{Namespace: "default", Name: c.Name, UID: c.UID}
	v.Status.Phase, c.Spec.VolumeName, c.Status.Phase = v1.VolumeBound, v.Name, v1.ClaimBound
	w.volumes[v.Name], w.claims[c.Name] = v, c
	w.tell(volumes.Volumes, false, v)
	w.tell(volumes.Claims, false, c)
	return nil
}

// evict does what preemption asked for.
func (w *world) evict() {
	for i := range w.core.out.evictions {
		e := &w.core.out.evictions[i]
		if w.r.IntN(4) == 0 {
			w.core.evictFailed(e, w.now.UnixNano())
			continue
		}
		w.drop(e.Victim.UID)
	}
	w.core.out.evictions = nil
	w.core.out.conditions, w.core.out.notices = nil, nil
}

func (w *world) drop(uid types.UID) {
	if pod := w.pods[uid]; pod != nil {
		delete(w.pods, uid)
		w.tell("pods", true, pod)
	}
}

func (w *world) addNode() {
	w.n++
	n := policytest.Node(fmt.Sprint("n", w.n), fmt.Sprint(1+w.r.IntN(3)), "4Gi", int64(1+w.r.IntN(6)), nil)
	w.nodes[n.Name] = n
	w.relabel(n)
}

// relabel gives a node other labels and taints, and tells of it.
func (w *world) relabel(was *v1.Node) {
	n := was.DeepCopy()
	n.Labels["zone"] = fmt.Sprint(w.r.IntN(3))
	n.Spec.Taints = nil
	if w.r.IntN(4) == 0 {
		n.Spec.Taints = []v1.Taint{{Key: "t0", Effect: v1.TaintEffectNoSchedule}}
	}
	w.nodes[n.Name] = n
	w.tell("nodes", false, n)
}

func (w *world) relabelNode() {
	if n := w.anyNode(); n != nil {
		w.relabel(n)
	}
}

func (w *world) removeNode() {
	if n := w.anyNode(); n != nil && len(w.nodes) > 2 {
		delete(w.nodes, n.Name)
		w.tell("nodes", true, n)
	}
}

func (w *world) anyNode() *v1.Node {
	names := make([]string, 0, len(w.nodes))
	for name := range w.nodes {
		names = append(names, name)
	}
	slices.Sort(names)
	return w.nodes[names[w.r.IntN(len(names))]]
}

func (w *world) addVolume() {
	w.n++
	v := &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("v", w.n), UID: types.UID(fmt.Sprint("v", w.n))},
		Spec: v1.PersistentVolumeSpec{
			Capacity:         v1.ResourceList{v1.ResourceStorage: *resource.NewQuantity(int64(1+w.r.IntN(3)), resource.DecimalSI)},
			StorageClassName: "local",
		},
		Status: v1.PersistentVolumeStatus{Phase: v1.VolumeAvailable},
	}
	w.volumes[v.Name] = v
	w.tell(volumes.Volumes, false, v)
}

func (w *world) addPod() {
	w.n++
	name := fmt.Sprint("p", w.n)
	p := policytest.Pod(name, fmt.Sprintf("%dm", 100+300*w.r.IntN(4)), "256Mi", func(p *v1.Pod) {
		priority := int32(w.r.IntN(3))
		p.Spec.Priority = &priority
		p.Labels = map[string]string{"app": fmt.Sprint(w.n % 3)}
		switch w.r.IntN(6) {
		case 0:
			p.Labels["apart"] = fmt.Sprint(w.r.IntN(2))
		case 1:
			p.Spec.NodeSelector = map[string]string{"zone": fmt.Sprint(w.r.IntN(3))}
		case 2:
			p.Spec.Tolerations = []v1.Toleration{{Key: "t0", Operator: v1.TolerationOpExists}}
		case 3:
			p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "wait"}}
		case 4:
			w.claimFor(p)
		}
	})
	w.pods[p.UID] = p
	w.tell("pods", false, p)
}

// claimFor gives a pod a claim of its own, or one that others use too.
func (w *world) claimFor(p *v1.Pod) {
	name := fmt.Sprint("c", w.n)
	if w.r.IntN(3) == 0 && len(w.claims) > 0 {
		names := make([]string, 0, len(w.claims))
		for n := range w.claims {
			names = append(names, n)
		}
		slices.Sort(names)
		name = names[w.r.IntN(len(names))]
	} else {
		class := "local"
		c := &v1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)},
			Spec: v1.PersistentVolumeClaimSpec{StorageClassName: &class, Resources: v1.VolumeResourceRequirements{
				Requests: v1.ResourceList{v1.ResourceStorage: *resource.NewQuantity(int64(1+w.r.IntN(3)), resource.DecimalSI)},
			}},
		}
		w.claims[name] = c
		w.tell(volumes.Claims, false, c)
	}
	p.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{
		PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name},
	}}}
}

func (w *world) deletePod() {
	uids := make([]types.UID, 0, len(w.pods))
	for uid := range w.pods {
		uids = append(uids, uid)
	}
	if len(uids) == 0 {
		return
	}
	slices.Sort(uids)
	uid := uids[w.r.IntN(len(uids))]
	if w.r.IntN(3) == 0 {
		// A gate opens instead.
		p := w.pods[uid].DeepCopy()
		p.Spec.SchedulingGates = nil
		w.pods[uid] = p
		w.tell("pods", false, p)
		return
	}
	w.drop(uid)
}

// check looks at the truth: what is bound, and what the core has reserved.
func (w *world) check() {
	perNode := map[string][]*snapshot.Pod{}
	for _, p := range w.pods {
		if p.Spec.NodeName != "" {
			perNode[p.Spec.NodeName] = append(perNode[p.Spec.NodeName], snapshot.NewPod(p))
		}
		if to, ok := w.boundTo[p.UID]; ok && to != p.Spec.NodeName {
			w.t.Fatalf("pod %s was bound to %s and is on %q", p.Name, to, p.Spec.NodeName)
		}
	}
	for name, pods := range perNode {
		node := w.nodes[name]
		if node == nil {
			continue
		}
		var cpu int64
		for _, p := range pods {
			cpu += p.Requests.MilliCPU
		}
		if cpu > node.Status.Allocatable.Cpu().MilliValue() || int64(len(pods)) > node.Status.Allocatable.Pods().Value() {
			w.t.Fatalf("node %s is overcommitted: %d pods, %dm CPU", name, len(pods), cpu)
		}
	}
	w.checkRows()
}

// checkRows compares the incremental sums with those of the pods.
func (w *world) checkRows() {
	for slot := range w.core.cluster.Slots() {
		row := w.core.cluster.Row(slot)
		if row == nil {
			continue
		}
		var cpu int64
		for _, p := range row.Pods {
			cpu += p.Requests.MilliCPU
		}
		if cpu != row.Requested.MilliCPU || int64(len(row.Pods)) != row.Requested.Pods || cpu > row.Allocatable.MilliCPU ||
			row.Requested.Pods > row.Allocatable.Pods {
			w.t.Fatalf("row %s holds %d pods of %dm, says %+v of %+v", row.Node.Name, len(row.Pods), cpu, row.Requested, row.Allocatable)
		}
	}
}

// settle lets the world come to rest: every pod is bound, or waits for a reason
// that holds.
func (w *world) settle() {
	// All of this takes less than the time after which pods are tried without
	// anything having woken them.
	w.broken = false
	for range 40 {
		w.now = w.now.Add(3 * time.Second)
		for kind, list := range w.news {
			w.core.apply(list, w.now.UnixNano())
			w.news[kind] = nil
		}
		for range 100 {
			w.step()
		}
		w.evict()
		for range 10 {
			w.handOver()
			w.commit()
		}
		w.check()
	}
	w.checkNoneLost()
}

func (w *world) checkNoneLost() {
	if len(w.core.assumed) > 0 || len(w.inFlight) > 0 || len(w.core.settling) > 0 || w.core.ledger.Reserved() > 0 {
		w.t.Errorf("at rest %d pods are assumed, %d in flight, %d settling, %d volumes reserved",
			len(w.core.assumed), len(w.inFlight), len(w.core.settling), w.core.ledger.Reserved())
	}
	nominated := 0
	for uid, p := range w.pods {
		if w.core.cluster.NominatedNode(uid) != "" {
			nominated++
		}
		w.checkAtRest(uid, p)
	}
	if n := w.core.cluster.Nominations(); n != nominated {
		w.t.Errorf("room is kept for %d pods, of which %d are there", n, nominated)
	}
}

// checkAtRest asks whether a pod is where it is said to be, or waits for a reason.
func (w *world) checkAtRest(uid types.UID, p *v1.Pod) {
	entry := w.core.queue.Get(uid)
	_, node, placed := w.core.cluster.Placed(uid)
	switch {
	case p.Spec.NodeName != "":
		if !placed || node != p.Spec.NodeName || entry != nil {
			w.t.Errorf("pod %s is bound to %s; the core has it on %q, queued: %v", p.Name, p.Spec.NodeName, node, entry != nil)
		}
	case entry == nil || placed:
		w.t.Errorf("pod %s is lost: placed on %q", p.Name, node)
	case entry.State().String() != "gated" && entry.State().String() != "waiting" && entry.State().String() != "backoff":
		w.t.Errorf("pod %s is %s at rest", p.Name, entry.State())
	case entry.State().String() == "waiting":
		w.checkWaits(p)
	}
}

// checkWaits asks whether a pod that waits really fits nowhere.
func (w *world) checkWaits(p *v1.Pod) {
	if volumes.Needs(p) || len(w.core.cluster.Nominated(snapshot.NewPod(p))) > 0 {
		return
	}
	pod := snapshot.NewPod(p)
	natives := policytest.Default(w.core.reasons).Predicates
	for slot := range w.core.cluster.Slots() {
		row := w.core.cluster.Row(slot)
		if row == nil {
			continue
		}
		refused := slices.ContainsFunc(natives, func(m framework.ProfilePredicate) bool {
			n := m.Policy.(*policytest.Native)
			if n.Answer != nil && strings.HasPrefix(n.Is.Name, "Apart") && p.Labels["apart"] == "" {
				return false
			}
			return n.Judge(w.core.cluster, pod, row) != ""
		})
		if !refused {
			w.t.Errorf("pod %s waits although %s would take it", p.Name, row.Node.Name)
		}
	}
}
