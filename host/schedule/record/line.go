package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/schedule"
	"github.com/berth-dev/berth/host/schedule/cycle"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/snapshot"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

// line is one change, or one decision. Kind and Number come first: by them a
// line is found without reading it.
type line struct {
	Kind   string `json:"kind"`
	Number uint64 `json:"number"`
	Seq    uint64 `json:"seq"`
	Slot   int32  `json:"slot,omitempty"`
	// Resource, and what is needed to read Object as what it is.
	Resource string          `json:"resource,omitempty"`
	Version  string          `json:"version,omitempty"`
	Type     string          `json:"type,omitempty"`
	Object   json.RawMessage `json:"object,omitempty"`
	// Namespace and Name are of an object that is gone, UID of such a pod.
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name,omitempty"`
	UID       types.UID `json:"uid,omitempty"`
	Trace     *trace    `json:"trace,omitempty"`
}

// Kinds of lines.
const (
	kindNode, kindNodeGone     = "node", "node-gone"
	kindPlaced, kindRemoved    = "placed", "removed"
	kindObject, kindObjectGone = "object", "object-gone"
	kindDecision               = "decision"
)

// trace is a schedule.Trace without what is derived from the pod.
type trace struct {
	Namespace, Name string
	UID             types.UID
	Set             int64
	Digest          *framework.Digest
	Now             int64
	Seed            uint64
	Pod             *v1.Pod
	Nominated       map[int32][]*v1.Pod `json:",omitempty"`
	Excluded        map[int32]string    `json:",omitempty"`
	Outcome         schedule.Outcome
	Node            string
	Total           int64
	Feasible        int
	Nodes           int
	Tied            int
	Message         string
	Made            string
	Preemption      *preemption        `json:",omitempty"`
	Failures        []schedule.Failure `json:",omitempty"`
	Took            time.Duration
}

// preemption is a schedule.Preemption. A recording of a version that kept none
// has none, though Made may tell of one.
type preemption struct {
	Victims []victim        `json:",omitempty"`
	Budgets []*cycle.Budget `json:",omitempty"`
	Started schedule.Starts `json:",omitempty"`
}

// victim names a pod, which stands in the state of the line's position.
type victim struct {
	UID    types.UID
	Breaks []string `json:",omitempty"`
}

func preemptionOf(p *schedule.Preemption) *preemption {
	if p == nil {
		return nil
	}
	own := &preemption{Budgets: p.Budgets, Started: p.Started}
	for _, v := range p.Victims {
		own.Victims = append(own.Victims, victim{UID: v.Pod.UID(), Breaks: v.Breaks})
	}
	return own
}

// read makes of what was recorded, and the state, what it was.
func (p *preemption) read(view *snapshot.View) (*schedule.Preemption, error) {
	if p == nil {
		return nil, nil
	}
	own := &schedule.Preemption{Started: p.Started}
	for _, b := range p.Budgets {
		if b == nil {
			return nil, errors.New("it has a disruption budget that is empty")
		}
		own.Budgets = append(own.Budgets, b.Ready())
	}
	for _, v := range p.Victims {
		pod := find(view, v.UID)
		if pod == nil {
			return nil, fmt.Errorf("pod %q, which was preempted, is not in the state before it", v.UID)
		}
		own.Victims = append(own.Victims, cycle.Victim{Pod: pod, Breaks: v.Breaks})
	}
	return own, nil
}

func find(view *snapshot.View, uid types.UID) *snapshot.Pod {
	for slot := range view.Slots() {
		row := view.Row(slot)
		if row == nil {
			continue
		}
		for _, p := range row.Pods {
			if p.UID() == uid {
				return p
			}
		}
	}
	return nil
}

// facts are the groups of a row that its node tells, not the pods on it.
const facts = abi.NodeGroups &^ (abi.NodeUsage | abi.NodePorts | abi.NodeVolumes)

// lineOf is what is written of a change; nil for one that follows from others.
func lineOf(d *snapshot.Delta) (*line, error) {
	l := &line{Seq: d.Seq, Slot: d.Slot}
	var err error
	switch d.Kind {
	case snapshot.RowUpsert:
		if d.Groups&facts == 0 {
			return nil, nil // the pod that comes next says it
		}
		l.Kind = kindNode
		l.Object, err = json.Marshal(d.Row.Node)
	case snapshot.RowRemove:
		l.Kind = kindNodeGone
	case snapshot.PodPlaced:
		l.Kind = kindPlaced
		l.Object, err = json.Marshal(d.Pod.Object)
	case snapshot.PodRemoved:
		l.Kind, l.UID = kindRemoved, d.Pod.UID()
	default:
		return objectLine(l, d)
	}
	return l, err
}

func objectLine(l *line, d *snapshot.Delta) (*line, error) {
	o, ok := d.Object.(snapshot.Object)
	if !ok {
		return nil, fmt.Errorf("a change of %s has no object", d.Resource)
	}
	l.Resource = d.Resource
	if d.Kind == snapshot.ObjectRemove {
		l.Kind, l.Namespace, l.Name = kindObjectGone, o.GetNamespace(), o.GetName()
		return l, nil
	}
	kinds, _, err := scheme.Scheme.ObjectKinds(d.Object)
	if err != nil {
		return nil, err
	}
	l.Kind, l.Version, l.Type = kindObject, kinds[0].GroupVersion().String(), kinds[0].Kind
	l.Object, err = json.Marshal(o)
	return l, err
}

// decisionLine is what is written of a decision.
func decisionLine(t *schedule.Trace) *line {
	own := &trace{
		Namespace: t.Namespace, Name: t.Name, UID: t.UID, Set: t.Set, Digest: t.Digest, Now: t.Now, Seed: t.Seed,
		Pod: t.Pod.Object, Excluded: t.Excluded, Outcome: t.Outcome, Node: t.Node, Total: t.Total,
		Feasible: t.Feasible, Nodes: t.Nodes, Tied: t.Tied, Message: t.Message, Made: t.Made, Took: t.Took,
		Preemption: preemptionOf(t.Preemption), Failures: t.Failures,
	}
	for slot, pods := range t.Nominated {
		if own.Nominated == nil {
			own.Nominated = map[int32][]*v1.Pod{}
		}
		for _, p := range pods {
			own.Nominated[slot] = append(own.Nominated[slot], p.Object)
		}
	}
	return &line{Kind: kindDecision, Number: t.Number, Seq: t.Position, Trace: own}
}

// decision is the trace that a line was written of.
func (l *line) decision() (schedule.Trace, error) {
	if l.Trace == nil || l.Trace.Pod == nil || l.Trace.Digest == nil {
		return schedule.Trace{}, fmt.Errorf("the record of decision %d is not whole", l.Number)
	}
	own := l.Trace
	t := schedule.Trace{
		Number: l.Number, Position: l.Seq,
		Namespace: own.Namespace, Name: own.Name, UID: own.UID, Set: own.Set, Digest: own.Digest, Now: own.Now, Seed: own.Seed,
		Pod: snapshot.NewPod(own.Pod), Excluded: own.Excluded, Outcome: own.Outcome, Node: own.Node, Total: own.Total,
		Feasible: own.Feasible, Nodes: own.Nodes, Tied: own.Tied, Message: own.Message, Made: own.Made, Took: own.Took,
		Failures: own.Failures,
	}
	return t, nil
}

// beside reads what stands beside the pod, and is of the state it was decided in.
func (t *trace) beside(to *schedule.Trace, view *snapshot.View) error {
	for slot, pods := range t.Nominated {
		if view.Row(slot) == nil {
			return fmt.Errorf("room is kept on a node that is not in the state before it (slot %d)", slot)
		}
		if to.Nominated == nil {
			to.Nominated = map[int32][]*snapshot.Pod{}
		}
		for _, p := range pods {
			if p == nil {
				return fmt.Errorf("a pod for which room is kept is missing (slot %d)", slot)
			}
			to.Nominated[slot] = append(to.Nominated[slot], snapshot.NewPod(p))
		}
	}
	var err error
	to.Preemption, err = t.Preemption.read(view)
	return err
}

// apply plays a change.
func (l *line) apply(to *snapshot.Past) error {
	switch l.Kind {
	case kindNode:
		node := new(v1.Node)
		if err := json.Unmarshal(l.Object, node); err != nil {
			return err
		}
		if l.Slot < 0 || l.Slot > maxSlots {
			return fmt.Errorf("slot %d", l.Slot)
		}
		to.PutNode(l.Slot, node)
	case kindNodeGone:
		to.DropNode(l.Slot)
	case kindPlaced:
		pod := new(v1.Pod)
		if err := json.Unmarshal(l.Object, pod); err != nil {
			return err
		}
		to.Place(l.Slot, pod)
	case kindRemoved:
		to.Remove(l.Slot, l.UID)
	case kindObject:
		return l.applyObject(to)
	case kindObjectGone:
		to.DropObject(l.Resource, l.Namespace, l.Name)
	}
	return nil
}

// maxSlots bounds the rows of a state.
const maxSlots = 1 << 20

func (l *line) applyObject(to *snapshot.Past) error {
	o, err := newObject(l.Version, l.Type)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(l.Object, o); err != nil {
		return err
	}
	to.PutObject(l.Resource, o)
	return nil
}
