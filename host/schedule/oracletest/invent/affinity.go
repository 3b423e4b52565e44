package invent

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func (i *inventor) affinity(p *v1.Pod) {
	if i.has("selector") {
		p.Spec.NodeSelector = map[string]string{one(i, "disk", "kubernetes.io/os"): one(i, "ssd", "linux", "")}
	}
	a := &v1.Affinity{}
	if i.has("nodeaffinity") {
		a.NodeAffinity = i.nodeAffinity()
	}
	if i.has("podaffinity") {
		a.PodAffinity = &v1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution:  i.terms(p),
			PreferredDuringSchedulingIgnoredDuringExecution: i.weighted(p),
		}
	}
	if i.has("podaffinity") {
		a.PodAntiAffinity = &v1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution:  i.terms(p),
			PreferredDuringSchedulingIgnoredDuringExecution: i.weighted(p),
		}
	}
	if *a != (v1.Affinity{}) {
		p.Spec.Affinity = a
	}
}

func (i *inventor) nodeAffinity() *v1.NodeAffinity {
	a := &v1.NodeAffinity{}
	if i.chance(0.6) {
		a.RequiredDuringSchedulingIgnoredDuringExecution = &v1.NodeSelector{}
		for n := 1 + i.IntN(2); n > 0; n-- {
			s := a.RequiredDuringSchedulingIgnoredDuringExecution
			s.NodeSelectorTerms = append(s.NodeSelectorTerms, i.nodeTerm())
		}
	}
	for i.chance(0.5) && len(a.PreferredDuringSchedulingIgnoredDuringExecution) < 3 {
		a.PreferredDuringSchedulingIgnoredDuringExecution = append(a.PreferredDuringSchedulingIgnoredDuringExecution,
			v1.PreferredSchedulingTerm{Weight: one(i, int32(1), 7, 50, 100), Preference: readable(i.nodeTerm())})
	}
	return a
}

// nodeTerm may be empty, which matches nothing.
func (i *inventor) nodeTerm() (t v1.NodeSelectorTerm) {
	for i.chance(0.7) && len(t.MatchExpressions) < 3 {
		t.MatchExpressions = append(t.MatchExpressions, i.nodeRequirement())
	}
	if i.chance(0.15) {
		t.MatchFields = []v1.NodeSelectorRequirement{{
			Key: "metadata.name", Operator: one(i, v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn), Values: []string{one(i, i.nodeName(), "none")},
		}}
	}
	return t
}

// readable makes a preference one that kube-scheduler can read: it gives up on
// a pod with another.
func readable(t v1.NodeSelectorTerm) v1.NodeSelectorTerm {
	for n := range t.MatchExpressions {
		if r := &t.MatchExpressions[n]; len(r.Values) == 1 && r.Values[0] == "0x1" {
			r.Values[0] = "1"
		}
	}
	return t
}

func (i *inventor) nodeRequirement() v1.NodeSelectorRequirement {
	r := v1.NodeSelectorRequirement{
		Key:      one(i, "disk", v1.LabelTopologyZone, "gen", "absent", v1.LabelHostname),
		Operator: one(i, v1.NodeSelectorOpIn, v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn, v1.NodeSelectorOpExists, v1.NodeSelectorOpDoesNotExist, v1.NodeSelectorOpGt, v1.NodeSelectorOpLt),
	}
	switch r.Operator {
	case v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn:
		r.Values = some(i, 2, "ssd", "hdd", "z1", "z2", "1", "n01", "")
	case v1.NodeSelectorOpGt, v1.NodeSelectorOpLt:
		r.Key, r.Values = one(i, "gen", "gen", "disk"), []string{one(i, "0", "1", "5", "0x1", "9223372036854775806")}
	}
	return r
}

func (i *inventor) terms(p *v1.Pod) (list []v1.PodAffinityTerm) {
	for i.chance(0.5) && len(list) < 2 {
		list = append(list, i.term(p))
	}
	return list
}

func (i *inventor) weighted(p *v1.Pod) (list []v1.WeightedPodAffinityTerm) {
	for i.chance(0.4) && len(list) < 2 {
		list = append(list, v1.WeightedPodAffinityTerm{Weight: one(i, int32(1), 10, 100), PodAffinityTerm: i.term(p)})
	}
	return list
}

func (i *inventor) term(p *v1.Pod) v1.PodAffinityTerm {
	t := v1.PodAffinityTerm{
		TopologyKey:   one(i, v1.LabelTopologyZone, v1.LabelHostname, v1.LabelTopologyRegion, "disk"),
		LabelSelector: i.selector(),
	}
	if i.chance(0.2) {
		t.Namespaces = some(i, 2, "red", "blue", "nowhere")
	}
	if i.chance(0.25) {
		t.NamespaceSelector = one(i, &metav1.LabelSelector{}, &metav1.LabelSelector{MatchLabels: map[string]string{"team": one(i, "x", "y")}})
	}
	// The API server has joined these with the selector already.
	if ver, ok := p.Labels["ver"]; ok && !about(t.LabelSelector, "ver") && i.chance(0.2) {
		op := metav1.LabelSelectorOpIn
		if i.chance(0.5) {
			t.MatchLabelKeys = []string{"ver"}
		} else {
			t.MismatchLabelKeys, op = []string{"ver"}, metav1.LabelSelectorOpNotIn
		}
		t.LabelSelector.MatchExpressions = append(t.LabelSelector.MatchExpressions,
			metav1.LabelSelectorRequirement{Key: "ver", Operator: op, Values: []string{ver}})
	}
	return t
}

// selector may be absent, which selects nothing, or empty, which selects all.
func (i *inventor) selector() *metav1.LabelSelector {
	s := &metav1.LabelSelector{}
	switch i.IntN(10) {
	case 0:
		return nil
	case 1:
		return s
	case 2, 3, 4, 5, 6:
		s.MatchLabels = map[string]string{"app": one(i, "web", "db", "job")}
	}
	if i.chance(0.4) || len(s.MatchLabels) == 0 {
		r := metav1.LabelSelectorRequirement{Key: one(i, "app", "ver"), Operator: one(i, metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist)}
		if r.Operator == metav1.LabelSelectorOpIn || r.Operator == metav1.LabelSelectorOpNotIn {
			r.Values = some(i, 2, "web", "db", "1", "2")
		}
		s.MatchExpressions = append(s.MatchExpressions, r)
	}
	return s
}

// about says whether a selector is absent or speaks of a key.
func about(s *metav1.LabelSelector, key string) bool {
	return s == nil || s.MatchLabels[key] != "" ||
		slices.ContainsFunc(s.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool { return r.Key == key })
}

func (i *inventor) spread(p *v1.Pod) {
	keys := []string{v1.LabelTopologyZone, v1.LabelHostname, v1.LabelTopologyRegion, "disk"}
	used := map[string]bool{}
	for i.has("spread") && len(p.Spec.TopologySpreadConstraints) < 4 {
		c := v1.TopologySpreadConstraint{
			MaxSkew: one(i, int32(1), 1, 2, 5), TopologyKey: one(i, keys...), LabelSelector: i.selector(),
			WhenUnsatisfiable: one(i, v1.DoNotSchedule, v1.ScheduleAnyway),
		}
		// Of an empty selector kube-scheduler says that it selects nobody, but
		// counts nominated pods by it: see docs/compatibility.md.
		if c.LabelSelector != nil && len(c.LabelSelector.MatchLabels)+len(c.LabelSelector.MatchExpressions) == 0 && i.often["nominated"] > 0 {
			c.LabelSelector = nil
		}
		if pair := c.TopologyKey + string(c.WhenUnsatisfiable); used[pair] {
			continue
		} else {
			used[pair] = true
		}
		if c.WhenUnsatisfiable == v1.DoNotSchedule && i.chance(0.3) {
			c.MinDomains = ptr.To(one(i, int32(1), 2, 3, 10))
		}
		if i.chance(0.3) {
			c.NodeAffinityPolicy = ptr.To(one(i, v1.NodeInclusionPolicyHonor, v1.NodeInclusionPolicyIgnore))
		}
		if i.chance(0.3) {
			c.NodeTaintsPolicy = ptr.To(one(i, v1.NodeInclusionPolicyHonor, v1.NodeInclusionPolicyIgnore))
		}
		if !about(c.LabelSelector, "ver") && i.chance(0.3) {
			c.MatchLabelKeys = []string{"ver"}
		}
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, c)
	}
}
