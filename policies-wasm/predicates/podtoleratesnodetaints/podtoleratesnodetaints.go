// Package podtoleratesnodetaints is the predicate PodToleratesNodeTaints: the
// pod tolerates every taint of the node with effect NoSchedule or NoExecute.
//
// Rows with equal taints share a set, so a pod's tolerations are tried once a
// set and not once a row.
//
// Source: kube-scheduler 1.36, plugin TaintToleration (Filter).
package podtoleratesnodetaints

import (
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/facts"
	"github.com/berth-dev/berth/sdk/guest"
	"github.com/berth-dev/berth/sdk/row"
)

func init() {
	guest.Register(guest.Policy{
		Name: "PodToleratesNodeTaints", Kind: guest.KindPredicate,
		Description: "The pod tolerates the node's taints of effect NoSchedule and NoExecute.",
		Reads:       sdk.PodTolerations | sdk.NodeTaints,
		Open:        open,
	})
}

type policy struct {
	rows    *row.Table
	reasons *guest.Reasons
	pod     *sdk.Pod
	// verdicts by set of taints, for the pod of the cycle.
	verdicts []verdict
}

type verdict struct {
	known  bool
	reason guest.ReasonID
}

func open(s *guest.Setup) (any, error) {
	return &policy{rows: s.Rows, reasons: s.Reasons}, s.Config.OnlyKeys()
}

func (p *policy) PreFilter(pod *sdk.Pod) guest.Answer {
	p.pod = pod
	if n := p.rows.TaintSets(); n > len(p.verdicts) {
		p.verdicts = make([]verdict, n+n/2)
	}
	clear(p.verdicts)
	return guest.AskRows
}

func (p *policy) FilterRows(slots []int32, verdicts []guest.ReasonID) {
	sets := p.rows.TaintSet
	for i, slot := range slots {
		set := sets[slot]
		if set == 0 {
			verdicts[i] = 0
			continue
		}
		v := &p.verdicts[set]
		if !v.known {
			*v = verdict{true, p.judge(p.rows.TaintSetOf(set))}
		}
		verdicts[i] = v.reason
	}
}

// judge names the first taint that the pod does not tolerate, by its key
// alone: values may be many, and the table of reasons is short.
func (p *policy) judge(taints []facts.Taint) guest.ReasonID {
	for _, t := range taints {
		if (t.Effect == facts.NoSchedule || t.Effect == facts.NoExecute) && !p.pod.Tolerates(t) {
			return p.reasons.ID(sdk.RejectFinal("node(s) had untolerated taint(s)"))
		}
	}
	return 0
}

// Explain names the taints that are not tolerated.
func (p *policy) Explain(slot int32, add func(sdk.Verdict)) {
	for _, t := range p.rows.Taints(slot) {
		if (t.Effect == facts.NoSchedule || t.Effect == facts.NoExecute) && !p.pod.Tolerates(t) {
			add(sdk.RejectFinal("node(s) had untolerated taint {" + p.pod.Text(t.Key) + ": " + p.pod.Text(t.Value) + "}"))
		}
	}
}
