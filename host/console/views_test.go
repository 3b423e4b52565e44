package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/berth-dev/berth/host/schedule"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// world is a cluster at which views look.
type world struct{ *snapshot.Cluster }

func newWorld(nodes int) world {
	w := world{snapshot.New(0)}
	for i := range nodes {
		w.node(fmt.Sprintf("n%d", i), fmt.Sprintf("zone-%d", i%2))
	}
	return w
}

func (w world) node(name, zone string) {
	room := v1.ResourceList{"cpu": resource.MustParse("8"), "memory": resource.MustParse("16Gi"), "pods": resource.MustParse("110")}
	w.UpsertNode(&v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": zone}},
		Status:     v1.NodeStatus{Allocatable: room, Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}},
	})
}

func (w world) place(namespace, app, node string) {
	w.Place(snapshot.NewPod(podOf(namespace, app)), node)
}

func podOf(namespace, app string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: app, UID: types.UID(namespace + "/" + app), Labels: map[string]string{"app": app}},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("1Gi")},
		}}}},
	}
}

func (w world) glance() schedule.Glance {
	g := schedule.Glance{Seq: w.Seq()}
	for slot := range w.Slots() {
		g.Rows = append(g.Rows, w.Row(slot))
	}
	return g
}

// only is a user who may list pods in one namespace, "*" for all.
func only(namespace string) visible {
	return newVisible(rights{nil, nil, allows(func(q authorizer.Attributes) bool { return namespace == "*" || q.GetNamespace() == namespace })})
}

func toldNodes(t *testing.T, v view[schedule.Glance], g schedule.Glance, of visible) *topologyFrame {
	t.Helper()
	switch frame := v.frame(g, of).(type) {
	case nil:
		return nil
	case *topologyFrame:
		return frame
	default:
		t.Fatalf("a frame is a %T", frame)
		return nil
	}
}

func TestTopologyTellsWhatHasChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(2)
	w.place("a", "web", "n0")
	shown := &topology{label: "zone"}
	want := &topologyFrame{
		Reset: true, Apps: []string{"web"},
		Nodes: nodeColumns{
			Slot: []int32{0, 1}, Name: []string{"n0", "n1"}, Group: []string{"zone-0", "zone-1"}, State: []string{"ready", "ready"},
			CPU: []int64{8000, 8000}, Memory: []int64{16384, 16384}, Pods: []int64{110, 110},
		},
		Use: useColumns{Slot: []int32{0, 1}, CPU: []int64{2000, 0}, Memory: []int64{1024, 0}, Apps: [][]int{{0, 1}, nil}},
	}
	if diff := cmp.Diff(want, toldNodes(t, shown, w.glance(), only("*"))); diff != "" {
		t.Errorf("the first frame (-want +got):\n%s", diff)
	}
	if got := toldNodes(t, shown, w.glance(), only("*")); got != nil {
		t.Errorf("when nothing has changed the frame is %+v, want none", got)
	}
	w.place("a", "api", "n1")
	want = &topologyFrame{Apps: []string{"api"}, Use: useColumns{Slot: []int32{1}, CPU: []int64{2000}, Memory: []int64{1024}, Apps: [][]int{{1, 1}}}}
	if diff := cmp.Diff(want, toldNodes(t, shown, w.glance(), only("*"))); diff != "" {
		t.Errorf("after a pod has landed (-want +got):\n%s", diff)
	}
	w.RemoveNode("n0")
	if got := toldNodes(t, shown, w.glance(), only("*")); got == nil || !slices.Equal(got.Gone, []int32{0}) {
		t.Errorf("after a node has gone the frame is %+v, want slot 0 gone", got)
	}
}

func TestAHeartbeatIsNotTold(t *testing.T) {
	t.Parallel()
	w := newWorld(1)
	w.place("a", "web", "n0")
	shown := &topology{label: "zone"}
	toldNodes(t, shown, w.glance(), only("*"))
	node := w.Row(0).Node.DeepCopy()
	node.Annotations = map[string]string{"heard": "again"}
	w.UpsertNode(node)
	if got := toldNodes(t, shown, w.glance(), only("*")); got != nil {
		t.Errorf("after a node was written that looks the same the frame is %+v, want none", got)
	}
	node = node.DeepCopy()
	node.Spec.Unschedulable = true
	w.UpsertNode(node)
	if got := toldNodes(t, shown, w.glance(), only("*")); got == nil || !slices.Equal(got.Nodes.State, []string{"cordoned"}) || got.Use.Slot != nil {
		t.Errorf("after a node was cordoned the frame is %+v, want that alone", got)
	}
}

func TestTheFirstFrameComesInSlices(t *testing.T) {
	t.Parallel()
	const nodes = 1200
	w := newWorld(nodes)
	shown := &topology{label: "zone", slice: 20 << 10}
	told, more := 0, true
	for n := 0; more; n++ {
		got := toldNodes(t, shown, w.glance(), only("*"))
		if got == nil || got.Reset != (n == 0) {
			t.Fatalf("slice %d is %+v: the first alone begins anew, and each tells something", n, got)
		}
		if data, err := json.Marshal(got); err != nil || len(data) > 24<<10 {
			t.Errorf("slice %d has %d bytes, %v", n, len(data), err)
		}
		told, more = told+len(got.Nodes.Slot), got.More
	}
	if told != nodes {
		t.Errorf("%d nodes are told, want %d", told, nodes)
	}
}

func TestAFrameIsBoundedAndNothingIsLost(t *testing.T) {
	t.Parallel()
	const nodes = 1200
	w := newWorld(nodes)
	shown := &topology{label: "zone"}
	if got := toldNodes(t, shown, w.glance(), only("*")); len(got.Use.Slot) != nodes {
		t.Fatalf("the first frame tells %d nodes, want all %d", len(got.Use.Slot), nodes)
	}
	for i := range nodes { // each has pods of many apps, some of which are new
		for k := range 12 {
			w.place(fmt.Sprint("a", i), fmt.Sprint("app-", i%400+k), fmt.Sprintf("n%d", i))
		}
	}
	seen := map[int32]bool{}
	for range 20 {
		got := toldNodes(t, shown, w.glance(), only("*"))
		if got == nil {
			break
		}
		if data, err := json.Marshal(got); err != nil || len(data) > 16<<10 {
			t.Errorf("a frame has %d bytes, %v; four a second may have 64 KiB", len(data), err)
		}
		for _, slot := range got.Use.Slot {
			seen[slot] = true
		}
	}
	if len(seen) != nodes {
		t.Errorf("%d nodes were told, want all %d", len(seen), nodes)
	}
}

func TestWhatMayNotBeListedIsAbsent(t *testing.T) {
	t.Parallel()
	w := newWorld(1)
	w.place("a", "mine", "n0")
	w.place("b", "theirs", "n0")
	g := w.glance()
	waits := byReason([]schedule.Pending{
		{Pod: podOf("a", "my-waiting"), Message: "no room", Since: began},
		{Pod: podOf("b", "their-waiting"), Message: "no room", Since: began},
		{Pod: podOf("b", "their-secret"), Message: "a reason of theirs", Since: began},
	})
	frame := toldNodes(t, &topology{label: "zone"}, g, only("a"))
	if diff := cmp.Diff(useColumns{Slot: []int32{0}, CPU: []int64{2000}, Memory: []int64{1024}, Apps: [][]int{{0, 1}}}, frame.Use); diff != "" {
		t.Errorf("the use that a user of namespace a sees (-want +got):\n%s", diff)
	}
	waiting := pending{"no room"}.frame(waits, only("a")).(*pendingFrame)
	if waiting.Pods != 1 || len(waiting.Groups) != 1 || waiting.Groups[0].Count != 1 {
		t.Errorf("the pods that a user of namespace a sees waiting are %+v, want his one", waiting)
	}
	for _, of := range []any{frame, waiting} {
		if data, _ := json.Marshal(of); strings.Contains(string(data), "their") {
			t.Errorf("a user of namespace a is told %s", data)
		}
	}
	if waiting := (pending{}).frame(waits, only("c")).(*pendingFrame); waiting.Pods != 0 || len(waiting.Groups) != 0 {
		t.Errorf("who may list nothing sees %+v", waiting)
	}
}

func TestRightsThatChangeBeginTheViewAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(1)
	w.place("a", "mine", "n0")
	w.place("b", "theirs", "n0")
	shown := &topology{label: "zone"}
	for i, tt := range []struct {
		namespace string
		cpu       int64
	}{{"a", 2000}, {"*", 4000}, {"b", 2000}, {"none", 0}} {
		got := toldNodes(t, shown, w.glance(), only(tt.namespace))
		if got == nil || !got.Reset || got.Use.CPU[0] != tt.cpu || len(got.Apps) != int(tt.cpu/2000) {
			t.Errorf("frame %d, for a user of %q: %+v, want all anew with %d of CPU", i, tt.namespace, got, tt.cpu)
		}
	}
}

func TestWhatPodsWaitFor(t *testing.T) {
	t.Parallel()
	gated := podOf("a", "gated")
	gated.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "x"}, {Name: "y"}}
	stray := podOf("a", "stray")
	stray.Spec.SchedulerName = "nobody"
	for _, tt := range []struct {
		pod   schedule.Pending
		want  string
		tried bool
	}{
		{schedule.Pending{Pod: gated, State: "gated"}, "its scheduling gates are not removed: x, y", false},
		{schedule.Pending{Pod: stray, State: "unclaimed"}, `no profile claims the schedulerName "nobody"`, false},
		{schedule.Pending{Pod: podOf("a", "new"), State: "active"}, "it is about to be tried", false},
		{schedule.Pending{Pod: podOf("a", "old"), State: "waiting", Message: "0/3 nodes"}, "0/3 nodes", true},
	} {
		if got, tried := waitsFor(&tt.pod); got != tt.want || tried != tt.tried {
			t.Errorf("waitsFor(%s) = %q, %v, want %q, %v", tt.pod.Pod.Name, got, tried, tt.want, tt.tried)
		}
	}
}

func TestPendingGroupsAreOrderedAndBounded(t *testing.T) {
	t.Parallel()
	var all []schedule.Pending
	for i := range maxGroups + 5 {
		all = append(all, schedule.Pending{Pod: podOf("a", fmt.Sprint("one-", i)), Message: fmt.Sprintf("reason %03d", i), Since: began})
	}
	for i := range maxNamed + 5 { // of two namespaces, the younger first
		all = append(all, schedule.Pending{Pod: podOf(string("ba"[i%2]), fmt.Sprint("many-", i)), Message: "frequent", Since: began.Add(-time.Duration(i) * time.Second)})
	}
	waits := byReason(all)
	f := pending{"frequent"}.frame(waits, only("*")).(*pendingFrame)
	first := f.Groups[0]
	if first.Reason != "frequent" || first.Count != maxNamed+5 || len(first.Pods) != maxNamed || f.Pods != len(all) {
		t.Errorf("the first group of %d pods is %q with %d pods, %d of them named", f.Pods, first.Reason, first.Count, len(first.Pods))
	}
	if oldest := first.Pods[0]; oldest.Name != fmt.Sprint("many-", maxNamed+4) || first.Since != oldest.Since {
		t.Errorf("the oldest is %+v, and the group waits since %d", oldest, first.Since)
	}
	if len(f.Groups) != maxGroups || f.Left != 6 {
		t.Errorf("%d groups are told and %d left, want %d and 6", len(f.Groups), f.Left, maxGroups)
	}
	for _, g := range f.Groups[1:] {
		if len(g.Pods) > 0 {
			t.Fatalf("pods of %q are named, which is not open", g.Reason)
		}
	}
	// The one that is open is told, however few wait for it.
	last := fmt.Sprintf("reason %03d", maxGroups+4)
	f = pending{last}.frame(waits, only("*")).(*pendingFrame)
	if end := f.Groups[len(f.Groups)-1]; end.Reason != last || len(end.Pods) != 1 || f.Left != 5 {
		t.Errorf("the last group is %q with %d named, %d are left, want the open one and 5", end.Reason, len(end.Pods), f.Left)
	}
}

func TestAPendingFrameIsBounded(t *testing.T) {
	t.Parallel()
	var all []schedule.Pending
	for i := range 2000 {
		long := fmt.Sprintf("%d %s", i%500, strings.Repeat("0/5000 nodes are available. ", 30))
		all = append(all, schedule.Pending{Pod: podOf("a", fmt.Sprint("waits-", i, strings.Repeat("x", 40))), Message: long, Since: began})
	}
	f := pending{all[0].Message}.frame(byReason(all), only("*")).(*pendingFrame)
	if data, err := json.Marshal(f); err != nil || len(data) > 64<<10 || len(f.Groups)+f.Left != 500 {
		t.Errorf("a frame of %d groups, %d left, has %d bytes, %v; one a second may have 64 KiB", len(f.Groups), f.Left, len(data), err)
	}
}

// A name that is markup stays a text: JSON holds no < of others.
func TestHostileTextsAreQuoted(t *testing.T) {
	t.Parallel()
	const hostile = "</script><script>alert(1)</script>\u2028"
	waits := byReason([]schedule.Pending{{Pod: podOf(hostile, hostile), Message: hostile, Since: began}})
	data, err := json.Marshal(pending{hostile}.frame(waits, only("*")))
	if err != nil || strings.ContainsAny(string(data), "<>\u2028") {
		t.Errorf("the frame is %s, %v", data, err)
	}
	var back pendingFrame
	if err := json.Unmarshal(data, &back); err != nil || back.Groups[0].Reason != hostile || back.Groups[0].Pods[0].Name != hostile {
		t.Errorf("the frame is read as %+v, %v", back, err)
	}
}

func TestAStreamIsForWhoMaySeeTheView(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		query string
		may   allows
		want  int
		says  string
	}{
		{"?view=topology", func(authorizer.Attributes) bool { return false }, http.StatusForbidden, "ada may not see this: it needs to list nodes"},
		{"?view=nothing", everything, http.StatusBadRequest, "topology, pending, workloads, services and events are"},
	} {
		now := began
		c := at(&now)
		c.May = tt.may
		r := httptest.NewRequest(http.MethodGet, streamPath+tt.query, nil)
		w := httptest.NewRecorder()
		c.stream(w, r.WithContext(request.WithUser(r.Context(), &user.DefaultInfo{Name: "ada"})))
		if w.Code != tt.want || !strings.Contains(w.Body.String(), tt.says) {
			t.Errorf("GET %s = %d %s, want %d %s", tt.query, w.Code, w.Body, tt.want, tt.says)
		}
	}
}

// A stream ends with its session, and else in an hour: its successor must be let in.
func TestAStreamEndsWithItsSession(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		ends time.Duration
		want time.Duration
	}{
		"a session of ten minutes": {10 * time.Minute, 10 * time.Minute},
		"one of two hours":         {2 * time.Hour, streamLife},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := New(Config{Scheduler: still{}, May: allows(everything), Key: []byte("secret"), Now: time.Now})
				r := of(t, c, "", time.Now().Add(tt.ends))
				r.URL.RawQuery = "view=topology"
				began := time.Now()
				c.stream(httptest.NewRecorder(), r.WithContext(request.WithUser(r.Context(), &user.DefaultInfo{Name: "ada"})))
				if lasted := time.Since(began); lasted != tt.want {
					t.Errorf("the stream lasts %s, want %s", lasted, tt.want)
				}
			})
		})
	}
}

// BenchmarkATabAtRest is what a tab costs each frame in which nothing has changed.
func BenchmarkATabAtRest(b *testing.B) {
	w := newWorld(5000)
	shown, g := &topology{label: "zone"}, w.glance()
	shown.frame(g, only("*"))
	for b.Loop() {
		if shown.frame(g, only("*")) != nil {
			b.Fatal("something has changed")
		}
	}
}

// BenchmarkATabWhilePodsLand is what a tab costs each frame while 6,000 pods land a
// second on 5,000 nodes.
func BenchmarkATabWhilePodsLand(b *testing.B) {
	const nodes, landing = 5000, 1500
	w := newWorld(nodes)
	shown := &topology{label: "zone"}
	land := func(from, to int) {
		for i := from; i < to; i++ {
			w.place(fmt.Sprint("a", i), fmt.Sprint("app-", i%20), fmt.Sprint("n", i%nodes))
		}
	}
	land(0, 2*nodes)
	shown.frame(w.glance(), only("*"))
	// Two states that differ by the pods of a frame, by turns.
	before := w.glance()
	land(2*nodes, 2*nodes+landing)
	states := []schedule.Glance{w.glance(), before}
	for n := 0; b.Loop(); n++ {
		if _, err := json.Marshal(shown.frame(states[n%2], only("*"))); err != nil {
			b.Fatal(err)
		}
	}
}
