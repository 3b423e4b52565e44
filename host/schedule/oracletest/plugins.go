package oracletest

import "github.com/berth-dev/berth/host/schedule/framework"

// ProfileName is the profile that has exactly kube-scheduler's plugins and weights.
const ProfileName = "kube-scheduler-1.36"

// Filters says which policies of that profile stand for a plugin's filter.
// With several, a node passes the plugin if it passes all of them.
var Filters = map[string][]string{
	"NodeUnschedulable":  {"CheckNodeUnschedulable"},
	"NodeName":           {"HostName"},
	"TaintToleration":    {"PodToleratesNodeTaints"},
	"NodeAffinity":       {"MatchNodeSelector"},
	"NodePorts":          {"PodFitsHostPorts"},
	"NodeResourcesFit":   {"PodFitsResources"},
	"VolumeRestrictions": {"NoDiskConflict"},
	"NodeVolumeLimits":   {"MaxCSIVolumeCount"},
	"VolumeBinding":      {"CheckVolumeBinding"},
	"VolumeZone":         {"NoVolumeZoneConflict"},
	"PodTopologySpread":  {"PodTopologySpread"},
	"InterPodAffinity":   {"MatchInterPodAffinity"},
}

// Scores says which policy stands for a plugin's score.
var Scores = map[string]string{
	"TaintToleration":                 "TaintTolerationPriority",
	"NodeAffinity":                    "NodeAffinityPriority",
	"NodeResourcesFit":                "LeastRequestedPriority",
	"NodeResourcesBalancedAllocation": "BalancedResourceAllocation",
	"ImageLocality":                   "ImageLocalityPriority",
	"PodTopologySpread":               "PodTopologySpreadPriority",
	"InterPodAffinity":                "InterPodAffinityPriority",
}

// LeftOut are kube-scheduler's plugins that no policy stands for: they speak
// of kinds and fields that are not served.
var LeftOut = []string{"DynamicResources", "NodeDeclaredFeatures"}

// Silent are plugins that kube-scheduler lists as scoring and that never score
// by default: VolumeBinding does so behind the alpha gate StorageCapacityScoring.
var Silent = []string{"VolumeBinding"}

// normal are the plugins whose policies normalise by themselves.
var normal = map[string]bool{"PodTopologySpread": true}

// KubeScheduler compares that profile as a whole.
func KubeScheduler(p *framework.Profile, reasons *framework.Reasons) *Oracle {
	return &Oracle{Reasons: reasons, Profile: p, Filters: Filters, Scores: Scores, Normal: normal, Whole: true}
}
