package wire_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/wire"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/snapshot"
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/facts"
	"github.com/berth-dev/berth/sdk/guest"
	"github.com/berth-dev/berth/sdk/row"
)

// watcher is a policy of scope set that keeps what it is told, and refuses
// rows in a zone that holds a pod.
type watcher struct {
	rows    *row.Table
	reason  guest.ReasonID
	zone    facts.Symbol
	zones   map[facts.Symbol]int // pods by zone
	at      map[int32]int        // pods by slot
	order   []string
	objects []*facts.Object
}

var (
	opened  *watcher
	watches = abi.Pods | abi.PodLabels | abi.PodAffinity | abi.PodVolumes | abi.NodeLabels | abi.NodeUsage | abi.ClusterGroups
)

func init() {
	guest.Register(guest.Policy{
		Name: "Watcher", Kind: guest.KindPredicate, Scope: guest.ScopeSet, Reads: watches,
		Open: func(s *guest.Setup) (any, error) {
			opened = &watcher{
				rows: s.Rows, zone: s.Rows.Symbols.Intern("zone"), reason: s.Reasons.ID(sdk.Reject("taken")),
				zones: map[facts.Symbol]int{}, at: map[int32]int{},
			}
			return opened, nil
		},
	})
}

func (w *watcher) zoneOf(slot int32) facts.Symbol { return w.rows.Labels(slot).Value(w.zone) }

func (w *watcher) note(what string, slot int32) {
	w.order = append(w.order, what+" "+w.rows.Symbols.String(w.rows.Name[slot])+" "+w.rows.Symbols.String(w.zoneOf(slot)))
}

func (w *watcher) RowAdded(slot int32) {
	w.note("added", slot)
	w.zones[w.zoneOf(slot)] += w.at[slot]
}

func (w *watcher) RowRemoved(slot int32) {
	w.note("removed", slot)
	w.zones[w.zoneOf(slot)] -= w.at[slot]
}

func (w *watcher) PodPlaced(slot int32, pod *sdk.Pod) {
	w.order = append(w.order, "placed "+pod.Text(pod.Name))
	w.zones[w.zoneOf(slot)]++
	w.at[slot]++
}

func (w *watcher) PodRemoved(slot int32, pod *sdk.Pod) {
	w.order = append(w.order, "gone "+pod.Text(pod.Name))
	w.zones[w.zoneOf(slot)]--
	w.at[slot]--
}

func (w *watcher) ObjectChanged(o *facts.Object) { w.objects = append(w.objects, o) }
func (w *watcher) ObjectRemoved(o *facts.Object) {
	w.objects = slices.DeleteFunc(w.objects, func(x *facts.Object) bool { return x.Name == o.Name })
}

func (w *watcher) PreFilter(pod *sdk.Pod) guest.Answer { return guest.AskRows }

func (w *watcher) FilterRows(slots []int32, verdicts []guest.ReasonID) {
	for i, slot := range slots {
		verdicts[i] = 0
		if w.zones[w.zoneOf(slot)] > 0 {
			verdicts[i] = w.reason
		}
	}
}

func zoned(name, zone string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": zone}}}
}

func named(name string) *snapshot.Pod {
	return snapshot.NewPod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: "u-" + "x"}})
}

// follow gives the guest what happened since seq.
func (g *native) follow(c *snapshot.Cluster, seq *uint64) {
	g.t.Helper()
	deltas, ok := c.Since(*seq)
	if !ok {
		g.t.Fatal("the log is too short")
	}
	*seq = c.Seq()
	g.apply(deltas.Whole()...)
}

func TestAPolicyOfScopeSetIsToldWhatHappens(t *testing.T) {
	g := open(t, "Watcher")
	w, c, seq := opened, snapshot.New(0), uint64(0)
	c.UpsertNode(zoned("a", "z1"))
	c.UpsertNode(zoned("b", "z2"))
	c.Place(named("p"), "a")
	g.follow(c, &seq)
	g.pod(named("q"))
	if diff := cmp.Diff([]string{"taken", ""}, g.filter(0, 1)); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}

	c.UpsertNode(zoned("a", "z2"))
	g.follow(c, &seq)
	g.pod(named("q"))
	if diff := cmp.Diff([]string{"taken", "taken"}, g.filter(0, 1)); diff != "" {
		t.Errorf("verdicts after a node moved (-want +got):\n%s", diff)
	}

	before := len(w.order)
	questions := []framework.WhatIf{
		{Deltas: []snapshot.Delta{{Kind: snapshot.PodRemoved, Slot: 0, Groups: abi.Pods, Pod: named("p")}}, Row: 1},
		{Row: 1},
		{Deltas: []snapshot.Delta{{Kind: snapshot.RowUpsert, Slot: 0, Groups: abi.NodeGroups, Row: &snapshot.Row{Node: zoned("a", "z3")}}}, Row: 1},
		{Deltas: []snapshot.Delta{
			{Kind: snapshot.PodPlaced, Slot: 1, Groups: abi.Pods, Pod: named("r")},
			{Kind: snapshot.PodRemoved, Slot: 0, Groups: abi.Pods, Pod: named("p")},
		}, Row: 0},
	}
	out, err := g.in.WhatIf(g.e.WhatIf(questions, g.reads))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"", "taken", "", "taken"}, g.texts(out)); diff != "" {
		t.Errorf("what-if (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"taken", "taken"}, g.filter(0, 1)); diff != "" {
		t.Errorf("verdicts after the questions (-want +got):\n%s", diff)
	}

	w.order = w.order[:before]
	c.RemoveNode("a")
	g.follow(c, &seq)
	want := []string{
		"added a z1", "added b z2", "placed p", "removed a z1", "added a z2", "gone p", "removed a z2",
	}
	if diff := cmp.Diff(want, w.order); diff != "" {
		t.Errorf("what the policy was told (-want +got):\n%s", diff)
	}
}

func TestObjectsReachAGuest(t *testing.T) {
	g := open(t, "Watcher")
	w, c, seq := opened, snapshot.New(0), uint64(0)
	wait, class := storagev1.VolumeBindingWaitForFirstConsumer, "fast"
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Namespace: "ns", Labels: map[string]string{"l": name}}
	}
	c.UpsertObject("services", &corev1.Service{ObjectMeta: meta("svc"), Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}}})
	c.UpsertObject("namespaces", &corev1.Namespace{ObjectMeta: meta("ns")})
	c.UpsertObject("storageclasses.storage.k8s.io", &storagev1.StorageClass{ObjectMeta: meta("fast"), Provisioner: "p", VolumeBindingMode: &wait})
	c.UpsertObject("persistentvolumeclaims", &corev1.PersistentVolumeClaim{
		ObjectMeta: meta("claim"),
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}},
		},
	})
	c.UpsertObject("persistentvolumes", &corev1.PersistentVolume{
		ObjectMeta: meta("volume"),
		Spec: corev1.PersistentVolumeSpec{
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("3Gi")},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h"}},
		},
	})
	g.follow(c, &seq)
	text := w.rows.Symbols.String
	got := map[string]*facts.Object{}
	for _, o := range w.objects {
		got[text(o.Name)] = o
	}
	if s := got["svc"]; s.Resource != facts.ResourceServices || !s.Selector.Present || text(s.Selector.Reqs[0].Values[0]) != "web" {
		t.Errorf("service %+v", s)
	}
	if n := got["ns"]; n.Resource != facts.ResourceNamespaces || n.Selector.Present || n.Labels.Len() != 1 {
		t.Errorf("namespace %+v", n)
	}
	if s := got["fast"].Class; !s.WaitForFirstConsumer || text(s.Provisioner) != "p" || s.Default {
		t.Errorf("class %+v", s)
	}
	if p := got["claim"].Claim; p.Request != 2<<30 || !p.HasClass || text(p.StorageClass) != "fast" || text(p.AccessModes[0]) != "ReadWriteOncePod" || p.Bound {
		t.Errorf("claim %+v", p)
	}
	if v := got["volume"].Volume; v.Capacity != 3<<30 || v.Source.Kind != facts.VolumeCSI || text(v.CSIHandle) != "h" || v.HasAffinity {
		t.Errorf("volume %+v", v)
	}
	c.RemoveObject("services", "ns", "svc")
	g.follow(c, &seq)
	if len(w.objects) != 4 {
		t.Errorf("%d objects after a removal, want 4", len(w.objects))
	}
}

// FuzzGuestInput gives a guest what no host would send. A reader may panic,
// which is a trap in a guest; it must not run away or accept the unknown.
func FuzzGuestInput(f *testing.F) {
	e := wire.NewEncoder()
	batch, _ := e.Deltas([]snapshot.Delta{upsert(1, node(0, "a", 1, 1), abi.NodeGroups)}, watches)
	f.Add(slices.Clone(batch), uint8(0))
	f.Add(slices.Clone(e.Pod(0, 0, named("p"), watches)), uint8(1))
	f.Add(slices.Clone(e.WhatIf([]framework.WhatIf{{Row: 0}}, watches)), uint8(2))
	f.Fuzz(func(t *testing.T, b []byte, what uint8) {
		in, err := guest.Open([]byte(`{"policy":"PodFitsResources"}`))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = recover() }()
		switch what % 4 {
		case 0:
			if in.Apply(b) == nil && in.Rows().Len() > 1<<20 {
				t.Errorf("%d rows out of %d bytes", in.Rows().Len(), len(b))
			}
		case 1:
			_, _ = in.Pod(b)
		case 2:
			_, _ = in.WhatIf(b)
		case 3:
			if out, err := in.Filter(b); err == nil {
				t.Errorf("Filter without a pod = %v", out)
			}
		}
	})
}
