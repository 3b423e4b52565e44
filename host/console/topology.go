package console

import (
	"cmp"
	"math"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/host/schedule"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

const (
	// maxFrame is about how many bytes a frame has, but the first: what has changed
	// beyond comes with the next ones. It keeps a tab below 64 KiB/s.
	maxFrame = 14 << 10
	// maxSlice is that of the first, whose rest follows at once: a tab decodes one
	// slice after the other, and draws them together.
	maxSlice = 200 << 10
	// maxApps is how many apps have a colour; what comes later is "other".
	maxApps = 1000
)

// topology is the nodes with what is on them.
type topology struct {
	label string
	// sent is the row that was told last, by slot.
	sent []*snapshot.Row
	of   visible
	apps map[string]int
	// from is the slot with which the next frame begins.
	from int
	// slice bounds the first frame and those that go on with it, 0 is not at all.
	slice int
	// begins says that the first frame's rest follows.
	begins bool
}

// topologyFrame is in columns: what stands at the same place is of one node.
type topologyFrame struct {
	// Reset says that all that was told before is void.
	Reset bool `json:"reset,omitempty"`
	// More says that the rest follows at once.
	More bool `json:"more,omitempty"`
	// Apps are further ones, which Use.Apps counts on from the former.
	Apps  []string    `json:"apps,omitempty"`
	Nodes nodeColumns `json:"nodes"`
	Use   useColumns  `json:"use"`
	Gone  []int32     `json:"gone,omitempty"`
}

func (f *topologyFrame) more() bool { return f.More }

// nodeColumns are of nodes that are new or were written.
type nodeColumns struct {
	Slot  []int32  `json:"slot,omitempty"`
	Name  []string `json:"name,omitempty"`
	Group []string `json:"group,omitempty"`
	// State is ready, cordoned or not ready.
	State []string `json:"state,omitempty"`
	// CPU is in thousandths, Memory in MiB.
	CPU    []int64 `json:"cpu,omitempty"`
	Memory []int64 `json:"memory,omitempty"`
	Pods   []int64 `json:"pods,omitempty"`
}

// useColumns are of nodes whose pods have changed.
type useColumns struct {
	Slot   []int32 `json:"slot,omitempty"`
	CPU    []int64 `json:"cpu,omitempty"`
	Memory []int64 `json:"memory,omitempty"`
	// Apps are pairs: an app, and how many pods it has there.
	Apps [][]int `json:"apps,omitempty"`
}

func (t *topology) frame(g schedule.Glance, of visible) any {
	f := &topologyFrame{Reset: t.sent == nil || !of.same(t.of)}
	budget := maxFrame
	if f.Reset {
		t.sent, t.apps, t.from, t.begins = nil, map[string]int{}, 0, true
	}
	if t.begins {
		budget = cmp.Or(t.slice, math.MaxInt)
	}
	t.of = of
	for slot := len(g.Rows); slot < len(t.sent); slot++ { // nobody is there any more
		if t.sent[slot] != nil {
			f.Gone = append(f.Gone, int32(slot))
		}
	}
	t.sent = slices.Grow(t.sent, max(0, len(g.Rows)-len(t.sent)))[:len(g.Rows)]
	for n := range g.Rows {
		slot := (t.from + n) % len(g.Rows)
		row, was := g.Rows[slot], t.sent[slot]
		if row == was {
			continue
		}
		if budget <= 0 {
			t.from, f.More = slot, t.begins
			break
		}
		budget -= t.tell(f, int32(slot), row, was)
		t.sent[slot] = row
	}
	t.begins = f.More
	if !f.Reset && len(f.Nodes.Slot) == 0 && len(f.Use.Slot) == 0 && len(f.Gone) == 0 {
		return nil
	}
	return f
}

// tell adds a row to a frame, and returns about how many bytes that takes.
func (t *topology) tell(f *topologyFrame, slot int32, row, was *snapshot.Row) (bytes int) {
	if row == nil {
		f.Gone = append(f.Gone, slot)
		return 6
	}
	if is := t.shown(row); was == nil || was.Node != row.Node && t.shown(was) != is {
		n := &f.Nodes
		n.Slot, n.Name, n.Group, n.State = append(n.Slot, slot), append(n.Name, is.name), append(n.Group, is.group), append(n.State, is.state)
		n.CPU, n.Memory, n.Pods = append(n.CPU, is.cpu), append(n.Memory, is.memory), append(n.Pods, is.pods)
		bytes += 45 + len(is.name) + len(is.group)
	}
	if was != nil && slices.Equal(row.Pods, was.Pods) {
		return bytes
	}
	u, known := &f.Use, len(f.Apps)
	cpu, memory, apps := t.use(f, row)
	u.Slot, u.CPU, u.Memory, u.Apps = append(u.Slot, slot), append(u.CPU, cpu), append(u.Memory, memory>>20), append(u.Apps, apps)
	for _, name := range f.Apps[known:] {
		bytes += len(name) + 3
	}
	return bytes + 24 + 4*len(apps)
}

// shownNode is what is told of a node beside its use. A node that is written without
// a change to that, as each is by its heartbeats, is not told again.
type shownNode struct {
	name, group, state string
	cpu, memory, pods  int64
}

func (t *topology) shown(row *snapshot.Row) shownNode {
	return shownNode{row.Node.Name, row.Node.Labels[t.label], stateOf(row.Node), row.Allocatable.MilliCPU, row.Allocatable.Memory >> 20, row.Allocatable.Pods}
}

// use sums what the user may see of a node's pods.
func (t *topology) use(f *topologyFrame, row *snapshot.Row) (cpu, memory int64, apps []int) {
	for _, pod := range row.Pods {
		if !t.of.in(pod.Object.Namespace) {
			continue
		}
		cpu, memory = cpu+pod.Requests.MilliCPU, memory+pod.Requests.Memory
		app, k := t.app(f, appOf(pod.Object)), 0
		for k < len(apps) && apps[k] < app {
			k += 2
		}
		if k == len(apps) || apps[k] != app {
			apps = slices.Insert(apps, k, app, 0)
		}
		apps[k+1]++
	}
	return cpu, memory, apps
}

// app is the number of an app, which is told with the first frame that uses it.
func (t *topology) app(f *topologyFrame, name string) int {
	if n, ok := t.apps[name]; ok {
		return n
	}
	if len(t.apps) >= maxApps {
		return len(t.apps) // beyond all that have a name
	}
	n := len(t.apps)
	t.apps[name] = n
	f.Apps = append(f.Apps, name)
	return n
}

// appOf is what a pod is coloured by: the label that Kubernetes recommends, the
// older one, its owner, its namespace.
func appOf(pod *v1.Pod) string {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		name := owner.Name
		if hash := pod.Labels["pod-template-hash"]; hash != "" {
			name = strings.TrimSuffix(name, "-"+hash)
		}
		return cmp.Or(pod.Labels["app.kubernetes.io/name"], pod.Labels["app"], name)
	}
	return cmp.Or(pod.Labels["app.kubernetes.io/name"], pod.Labels["app"], pod.Namespace)
}

func stateOf(node *v1.Node) string {
	if node.Spec.Unschedulable {
		return "cordoned"
	}
	for _, c := range node.Status.Conditions {
		if c.Type == v1.NodeReady && c.Status == v1.ConditionTrue {
			return "ready"
		}
	}
	return "not ready"
}
