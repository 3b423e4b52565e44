package policytest

import (
	"context"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/snapshot"

	v1 "k8s.io/api/core/v1"
	corev1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// Fits is PodFitsResources.
func Fits(reasons *framework.Reasons) *Native {
	return &Native{
		Is: Named("PodFitsResources", abi.PodRequests|abi.NodeCapacity|abi.NodeUsage, abi.ScopeRow), Reasons: reasons,
		Judge: func(_ snapshot.Log, pod *snapshot.Pod, row *snapshot.Row) string { return row.Shortage(pod) },
	}
}

// Selector is MatchNodeSelector.
func Selector(reasons *framework.Reasons) *Native {
	return &Native{
		Is: Named("MatchNodeSelector", abi.PodAffinity|abi.NodeLabels, abi.ScopeRow), Reasons: reasons, Lasting: true,
		Answer: func(_ snapshot.Log, pod *snapshot.Pod) abi.Ask {
			if len(pod.Object.Spec.NodeSelector) == 0 && pod.Object.Spec.Affinity == nil {
				return abi.AskSkip
			}
			return abi.AskRows
		},
		Judge: func(_ snapshot.Log, pod *snapshot.Pod, row *snapshot.Row) string {
			if ok, err := nodeaffinity.GetRequiredNodeAffinity(pod.Object).Match(row.Node); err != nil || !ok {
				return "node(s) didn't match Pod's node affinity/selector"
			}
			return ""
		},
	}
}

// Taints is PodToleratesNodeTaints.
func Taints(reasons *framework.Reasons) *Native {
	return &Native{
		Is: Named("PodToleratesNodeTaints", abi.PodTolerations|abi.NodeTaints, abi.ScopeRow), Reasons: reasons, Lasting: true,
		Judge: func(_ snapshot.Log, pod *snapshot.Pod, row *snapshot.Row) string {
			_, found := corev1.FindMatchingUntoleratedTaint(klog.Background(), row.Node.Spec.Taints, pod.Object.Spec.Tolerations, func(t *v1.Taint) bool {
				return t.Effect != v1.TaintEffectPreferNoSchedule
			}, false)
			if found {
				return "node(s) had untolerated taint(s)"
			}
			return ""
		},
	}
}

// Ports is PodFitsHostPorts.
func Ports(reasons *framework.Reasons) *Native {
	return &Native{
		Is: Named("PodFitsHostPorts", abi.PodPorts|abi.NodePorts, abi.ScopeRow), Reasons: reasons,
		Judge: func(_ snapshot.Log, pod *snapshot.Pod, row *snapshot.Row) string {
			for _, want := range pod.Ports {
				for _, has := range row.Ports {
					if want.Port == has.Port && want.Protocol == has.Protocol {
						return "node(s) didn't have free ports for the requested pod ports"
					}
				}
			}
			return ""
		},
	}
}

// Apart refuses nodes that hold a pod with the same value of label "apart": it
// is of scope set and reads pods.
func Apart(reasons *framework.Reasons) *Native {
	return &Native{
		Is: Named("Apart", abi.PodLabels|abi.Pods|abi.NodeLabels, abi.ScopeSet), Reasons: reasons,
		Answer: func(_ snapshot.Log, pod *snapshot.Pod) abi.Ask {
			if pod.Object.Labels["apart"] == "" {
				return abi.AskSkip
			}
			return abi.AskRows
		},
		Judge: func(_ snapshot.Log, pod *snapshot.Pod, row *snapshot.Row) string {
			for _, p := range row.Pods {
				if p.Object.Labels["apart"] == pod.Object.Labels["apart"] {
					return "node(s) hold a pod that must be apart"
				}
			}
			return ""
		},
	}
}

// LeastRequested prefers empty nodes.
func LeastRequested(reasons *framework.Reasons) *Native {
	return &Native{
		Is: Named("LeastRequestedPriority", abi.PodRequests|abi.NodeCapacity|abi.NodeUsage, abi.ScopeRow), Reasons: reasons,
		Rate: func(_ snapshot.Log, pod *snapshot.Pod, row *snapshot.Row) int64 {
			return (free(row.Allocatable.MilliCPU, row.NonZero.MilliCPU+pod.NonZero.MilliCPU) +
				free(row.Allocatable.Memory, row.NonZero.Memory+pod.NonZero.Memory)) / 2
		},
	}
}

func free(allocatable, requested int64) int64 {
	if allocatable == 0 || requested > allocatable {
		return 0
	}
	return (allocatable - requested) * 100 / allocatable
}

// PreferLabel counts how many of the pod's labels a node has, by max.
func PreferLabel(reasons *framework.Reasons) *Native {
	n := &Native{
		Is: Named("PreferLabel", abi.PodLabels|abi.NodeLabels, abi.ScopeRow), Reasons: reasons,
		Rate: func(_ snapshot.Log, pod *snapshot.Pod, row *snapshot.Row) int64 {
			var n int64
			for k, v := range pod.Object.Labels {
				if row.Node.Labels[k] == v {
					n++
				}
			}
			return n
		},
	}
	n.Is.Normalize = abi.NormalizeMax
	return n
}

// AvoidTaints counts PreferNoSchedule taints, by max reversed.
func AvoidTaints(reasons *framework.Reasons) *Native {
	n := &Native{
		Is: Named("TaintTolerationPriority", abi.PodTolerations|abi.NodeTaints, abi.ScopeRow), Reasons: reasons,
		Rate: func(_ snapshot.Log, _ *snapshot.Pod, row *snapshot.Row) int64 {
			var n int64
			for _, t := range row.Node.Spec.Taints {
				if t.Effect == v1.TaintEffectPreferNoSchedule {
					n++
				}
			}
			return n
		},
	}
	n.Is.Normalize = abi.NormalizeMaxReversed
	return n
}

// Crowd prefers nodes with many pods, by min-max, and is of scope set.
func Crowd(reasons *framework.Reasons) *Native {
	n := &Native{
		Is: Named("Crowd", abi.PodLabels|abi.Pods, abi.ScopeSet), Reasons: reasons,
		Answer: func(_ snapshot.Log, pod *snapshot.Pod) abi.Ask {
			if pod.Object.Labels["crowd"] == "" {
				return abi.AskSkip
			}
			return abi.AskRows
		},
		Rate: func(_ snapshot.Log, _ *snapshot.Pod, row *snapshot.Row) int64 { return int64(len(row.Pods)) },
	}
	n.Is.Normalize = abi.NormalizeMinMax
	return n
}

// FewestPods is min-max over a row's own count, remembered.
func FewestPods(reasons *framework.Reasons) *Native {
	n := &Native{
		Is: Named("FewestPods", abi.NodeUsage, abi.ScopeRow), Reasons: reasons,
		Rate: func(_ snapshot.Log, _ *snapshot.Pod, row *snapshot.Row) int64 { return -row.Requested.Pods },
	}
	n.Is.Normalize = abi.NormalizeMinMax
	return n
}

// Default is a profile of all of these, by the name default-scheduler.
func Default(reasons *framework.Reasons) *framework.Profile {
	return &framework.Profile{
		Name: "default-scheduler",
		Predicates: []framework.ProfilePredicate{
			{Policy: Taints(reasons), Verifier: Taints(reasons)},
			{Policy: Selector(reasons), Verifier: Selector(reasons)},
			{Policy: Ports(reasons), Verifier: Ports(reasons)},
			{Policy: Fits(reasons), Verifier: Fits(reasons)},
			{Policy: Apart(reasons)},
		},
		Priorities: []framework.ProfilePriority{
			{Policy: LeastRequested(reasons), Verifier: LeastRequested(reasons), Weight: 1},
			{Policy: PreferLabel(reasons), Verifier: PreferLabel(reasons), Weight: 2},
			{Policy: AvoidTaints(reasons), Verifier: AvoidTaints(reasons), Weight: 3},
			{Policy: FewestPods(reasons), Verifier: FewestPods(reasons), Weight: 1},
			{Policy: Crowd(reasons), Weight: 2},
		},
	}
}

// Set is a live set of one profile.
func Set(number int64, p *framework.Profile) *framework.LiveSet {
	return &framework.LiveSet{Number: number, Profiles: map[string]*framework.Profile{"default-scheduler": p}}
}

// Live is a live set of one profile that can be opened again.
func Live(number int64, open func() *framework.Profile) *framework.LiveSet {
	set := Set(number, open())
	set.Reopen = func(context.Context) (*framework.LiveSet, func(), error) {
		return Set(number, open()), func() {}, nil
	}
	return set
}
