package schedule

import (
	"github.com/berth-dev/berth/host/schedule/cycle"
	"github.com/berth-dev/berth/host/schedule/queue"
	"github.com/berth-dev/berth/host/schedule/volumes"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// maxOtherRows bounds how many rows are tried for a pod whose volumes cannot
// be had where it was to go.
const maxOtherRows = 64

const noVolumes = "volumes cannot be had on any of the nodes tried"

// planVolumes decides which volumes the pod's claims get on the row that was
// picked; where they cannot be had, another row is picked.
func (c *core) planVolumes(entry *queue.Entry, decision cycle.Decision, trace *Trace) (cycle.Decision, volumes.Plan) {
	if !volumes.Needs(entry.Pod.Object) {
		return decision, volumes.Plan{}
	}
	for range maxOtherRows {
		if decision.Slot < 0 {
			break
		}
		plan, err := c.ledger.Plan(entry.Pod.Object, c.cluster.Row(decision.Slot).Node)
		if err == nil {
			return decision, plan
		}
		if trace.Excluded == nil {
			trace.Excluded = map[int32]string{}
		}
		trace.Excluded[decision.Slot] = err.Error()
		decision = c.decider.Again(decision.Slot, err.Error())
	}
	if decision.Slot >= 0 {
		decision = c.decider.GiveUp(noVolumes)
	}
	return decision, volumes.Plan{}
}

// place reserves the row and asks for the bind; a pod whose volumes must be
// made first waits for them where they will be.
func (c *core) place(entry *queue.Entry, decision cycle.Decision, plan volumes.Plan, trace *Trace, now int64) {
	object := entry.Pod.Object
	node := c.cluster.Row(decision.Slot).Node.Name
	trace.Node = node
	c.vacate(object.UID, node, now)
	if len(plan.Provision) > 0 {
		trace.Outcome = Provisions
		c.cluster.Nominate(entry.Pod, node)
		c.provision(object, &plan, node)
		c.queue.Wait(entry, waitVolumes, true, now)
		return
	}
	trace.Outcome = Placed
	c.reserve(object.UID, &plan)
	on := c.cluster.Row(decision.Slot).Node
	c.cluster.Place(c.locator.On(on, entry.Pod), node)
	c.assumed[object.UID] = &assumption{entry: entry, node: on, plan: plan}
	c.out.bindings = append(c.out.bindings, Binding{Pod: object, Node: node, Volumes: plan.Matches})
}

// provision asks for the volumes of a plan that must be made. Those that exist
// are bound with that, before others take them: what is made on the node is of
// no use without them.
func (c *core) provision(object *v1.Pod, plan *volumes.Plan, node string) {
	c.reserve(object.UID, plan)
	if len(plan.Matches) > 0 {
		c.settling[object.UID] = plan
	}
	if claims := plan.Unasked(); len(claims)+len(plan.Matches) > 0 {
		c.out.provisions = append(c.out.provisions, Provision{Pod: object, Claims: claims, Node: node, Volumes: plan.Matches})
	}
}

// reserve keeps the volumes of a plan for a pod, in place of those of the one before.
func (c *core) reserve(uid types.UID, plan *volumes.Plan) {
	c.ledger.Reserve(plan)
	c.unsettle(uid)
}

// unsettle waits no longer for the plan of a pod to be seen.
func (c *core) unsettle(uid types.UID) {
	if plan := c.settling[uid]; plan != nil {
		delete(c.settling, uid)
		c.ledger.Release(plan)
	}
}
