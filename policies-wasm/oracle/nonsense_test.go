package oracle

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/host/policy/builtin/builtintest"
	"github.com/berth-dev/berth/host/schedule/cycle"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/oracletest"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// nonsense are nodes that report what cannot be, beside sound ones.
func nonsense() *oracletest.Case {
	c := &oracletest.Case{}
	for i, list := range []v1.ResourceList{
		nil, {}, amounts("-4", "-8Gi", "-1"), amounts("9e30", "9e30", "9e30"), amounts("0", "0", "0"), amounts("1n", "1n", "1"), amounts("9223372036854775807", "9223372036854775807", "110"),
		amounts("64", "64Gi", "110"), amounts("64", "64Gi", "110"),
	} {
		name := fmt.Sprintf("n%d", i)
		c.Nodes = append(c.Nodes, v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name, v1.LabelTopologyZone: fmt.Sprint("z", i%3)}},
			Status:     v1.NodeStatus{Allocatable: list, Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}},
		})
	}
	return c
}

func amounts(cpu, memory, pods string) v1.ResourceList {
	return v1.ResourceList{
		v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory), v1.ResourcePods: resource.MustParse(pods),
		"example.com/gpu": resource.MustParse(cpu),
	}
}

// absurd are pods that an API server might let through.
func absurd() map[string]*v1.Pod {
	pods := map[string]*v1.Pod{}
	add := func(name string, change func(*v1.Pod)) {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: "u", Labels: map[string]string{"app": "web"}}}
		p.Spec.Containers = []v1.Container{{Name: "c", Image: "i"}}
		change(p)
		pods[name] = p
	}
	for _, cpu := range []string{"9e30", "-5", "9223372036854775807", "1n"} {
		add("requests "+cpu, func(p *v1.Pod) {
			list := amounts(cpu, cpu, "1")
			delete(list, v1.ResourcePods)
			p.Spec.Containers[0].Resources.Requests = list
			p.Spec.Containers = append(p.Spec.Containers, p.Spec.Containers[0])
		})
	}
	selector := func(i int) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{fmt.Sprint(i), "web"}}, {Key: "app", Operator: metav1.LabelSelectorOpDoesNotExist},
		}}
	}
	add("a thousand terms", func(p *v1.Pod) {
		a := &v1.Affinity{PodAffinity: &v1.PodAffinity{}, PodAntiAffinity: &v1.PodAntiAffinity{}, NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{}}}
		for i := range 1000 {
			term := v1.PodAffinityTerm{TopologyKey: fmt.Sprint("key-", i%7), LabelSelector: selector(i)}
			a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution = append(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, term)
			a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution = append(a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution,
				v1.WeightedPodAffinityTerm{Weight: 100, PodAffinityTerm: term})
			s := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
			s.NodeSelectorTerms = append(s.NodeSelectorTerms, v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{
				{Key: v1.LabelTopologyZone, Operator: v1.NodeSelectorOpIn, Values: []string{fmt.Sprint("z", i)}},
			}})
		}
		p.Spec.Affinity = a
	})
	add("a hundred constraints", func(p *v1.Pod) {
		for i := range 100 {
			when := v1.DoNotSchedule
			if i%2 == 0 {
				when = v1.ScheduleAnyway
			}
			p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, v1.TopologySpreadConstraint{
				MaxSkew: 1<<31 - 1, TopologyKey: []string{v1.LabelHostname, v1.LabelTopologyZone}[i%2], WhenUnsatisfiable: when, LabelSelector: selector(i),
			})
		}
	})
	add("impossible selectors", func(p *v1.Pod) {
		p.Spec.NodeSelector = map[string]string{v1.LabelHostname: "n7", "absent": ""}
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
			NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "x", Operator: "Sideways"}, {Key: "y", Operator: v1.NodeSelectorOpGt, Values: []string{"a", "b"}}}}},
		}}}
	})
	return pods
}

// TestNonsenseGetsVerdicts asks both shipped profiles, by the guests and the
// budgets of a host: each policy answers, and nothing impossible is admitted.
func TestNonsenseGetsVerdicts(t *testing.T) {
	t.Parallel()
	host := builtintest.Open(t)
	for _, scheduler := range []string{v1.DefaultSchedulerName, oracletest.ProfileName} {
		p, release := host.Open(t, scheduler)
		cluster := nonsense().Cluster()
		for name, object := range absurd() {
			t.Run(scheduler+"/"+name, func(t *testing.T) { sound(t, host, p, cluster, snapshot.NewPod(object)) })
		}
		release()
	}
}

func sound(t *testing.T, host *builtintest.Host, p *framework.Profile, cluster *snapshot.Cluster, pod *snapshot.Pod) {
	table, err := cycle.Judge(t.Context(), p, host.Reasons, cluster, pod, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range table.Predicates {
		if v.Err != nil {
			t.Errorf("%s: %v", v.Policy, v.Err)
		}
	}
	for _, s := range table.Priorities {
		if s.Err != nil {
			t.Errorf("%s: %v", s.Policy, s.Err)
		}
		for _, n := range s.Normalized {
			if n < 0 || n > 100 {
				t.Errorf("%s normalises to %d", s.Policy, n)
			}
		}
	}
	decider := cycle.New(cycle.Options{Reasons: host.Reasons})
	set := &framework.LiveSet{Number: 1, Profiles: map[string]*framework.Profile{p.Name: p}}
	got := decider.Decide(t.Context(), cycle.Input{Set: set, Profile: p, Log: cluster, Pod: pod})
	decider.End()
	if len(got.Failures) > 0 {
		t.Errorf("failures: %v", got.Failures)
	}
	switch {
	case got.Slot < 0 && len(got.Refusals) == 0:
		t.Error("refused without a reason")
	case got.Slot >= 0 && !cluster.Row(got.Slot).Fits(pod):
		t.Errorf("placed on %s, where it does not fit", cluster.Row(got.Slot).Node.Name)
	}
}
