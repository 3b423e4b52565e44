package node

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Silence is how long a node may leave its Lease unrenewed by default.
const Silence = 40 * time.Second

// watched are the conditions that become Unknown with the node, and what to
// say of one that the node never reported.
var watched = []v1.NodeConditionType{
	v1.NodeReady, v1.NodeMemoryPressure, v1.NodeDiskPressure, v1.NodePIDPressure,
}

// Conditions returns the node's conditions as they must be when it has been
// silent for too long, and whether they differ from those it has. A node that
// was heard of speaks for itself.
func Conditions(node *v1.Node, silent bool, now time.Time) ([]v1.NodeCondition, bool) {
	if !silent {
		return node.Status.Conditions, false
	}
	conditions := slices.Clone(node.Status.Conditions)
	changed := false
	for _, kind := range watched {
		i := slices.IndexFunc(conditions, func(c v1.NodeCondition) bool { return c.Type == kind })
		if i < 0 {
			conditions = append(conditions, v1.NodeCondition{
				Type: kind, Status: v1.ConditionUnknown,
				Reason: "NodeStatusNeverUpdated", Message: "Kubelet never posted node status.",
				LastHeartbeatTime: node.CreationTimestamp, LastTransitionTime: metav1.NewTime(now),
			})
			changed = true
			continue
		}
		if conditions[i].Status == v1.ConditionUnknown {
			continue
		}
		conditions[i].Status = v1.ConditionUnknown
		conditions[i].Reason = "NodeStatusUnknown"
		conditions[i].Message = "Kubelet stopped posting node status."
		conditions[i].LastTransitionTime = metav1.NewTime(now)
		changed = true
	}
	return conditions, changed
}

// owned are the taints that this package puts on and takes off; all others
// belong to somebody else.
var owned = []v1.Taint{
	{Key: v1.TaintNodeNotReady, Effect: v1.TaintEffectNoSchedule},
	{Key: v1.TaintNodeNotReady, Effect: v1.TaintEffectNoExecute},
	{Key: v1.TaintNodeUnreachable, Effect: v1.TaintEffectNoSchedule},
	{Key: v1.TaintNodeUnreachable, Effect: v1.TaintEffectNoExecute},
	{Key: v1.TaintNodeMemoryPressure, Effect: v1.TaintEffectNoSchedule},
	{Key: v1.TaintNodeDiskPressure, Effect: v1.TaintEffectNoSchedule},
	{Key: v1.TaintNodePIDPressure, Effect: v1.TaintEffectNoSchedule},
	{Key: v1.TaintNodeNetworkUnavailable, Effect: v1.TaintEffectNoSchedule},
	{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule},
}

// Taints returns the taints that the node must have by its conditions and its
// spec.unschedulable, and whether they differ from those it has. evicts says whether
// one that is not ready has the taint that evicts pods, too.
func Taints(node *v1.Node, evicts bool, now time.Time) ([]v1.Taint, bool) {
	wanted := wantedTaints(node, evicts)
	var taints []v1.Taint
	changed := false
	for _, t := range node.Spec.Taints {
		if has(owned, &t) && !has(wanted, &t) {
			changed = true
			continue
		}
		taints = append(taints, t)
	}
	for _, w := range wanted {
		if has(taints, &w) {
			continue
		}
		if w.Effect == v1.TaintEffectNoExecute {
			added := metav1.NewTime(now.Truncate(time.Second)) // as everybody reads it: a patch must not change it
			w.TimeAdded = &added
		}
		taints = append(taints, w)
		changed = true
	}
	return taints, changed
}

func has(taints []v1.Taint, t *v1.Taint) bool {
	return slices.ContainsFunc(taints, func(o v1.Taint) bool { return o.MatchTaint(t) })
}

func (c conditionTaint) holds(node *v1.Node) bool {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == c.kind {
			return node.Status.Conditions[i].Status == c.status
		}
	}
	return false
}

// serves tells whether a node is ready.
func serves(node *v1.Node) bool {
	return conditionTaint{kind: v1.NodeReady, status: v1.ConditionTrue}.holds(node)
}

// conditionTaint says which taint a condition brings, as in Kubernetes'
// nodelifecycle controller.
type conditionTaint struct {
	kind   v1.NodeConditionType
	status v1.ConditionStatus
	key    string
	evicts bool
}

// lost is what nobody hears of.
var lost = conditionTaint{v1.NodeReady, v1.ConditionUnknown, v1.TaintNodeUnreachable, true}

var byCondition = []conditionTaint{
	{v1.NodeReady, v1.ConditionFalse, v1.TaintNodeNotReady, true},
	lost,
	{v1.NodeMemoryPressure, v1.ConditionTrue, v1.TaintNodeMemoryPressure, false},
	{v1.NodeDiskPressure, v1.ConditionTrue, v1.TaintNodeDiskPressure, false},
	{v1.NodePIDPressure, v1.ConditionTrue, v1.TaintNodePIDPressure, false},
	{v1.NodeNetworkUnavailable, v1.ConditionTrue, v1.TaintNodeNetworkUnavailable, false},
}

func wantedTaints(node *v1.Node, evicts bool) []v1.Taint {
	var wanted []v1.Taint
	for _, c := range byCondition {
		if !c.holds(node) {
			continue
		}
		wanted = append(wanted, v1.Taint{Key: c.key, Effect: v1.TaintEffectNoSchedule})
		if c.evicts && evicts {
			wanted = append(wanted, v1.Taint{Key: c.key, Effect: v1.TaintEffectNoExecute})
		}
	}
	if node.Spec.Unschedulable {
		wanted = append(wanted, v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule})
	}
	return wanted
}
