package kubescheduler

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-dev/berth/host/schedule/oracletest"
)

// Answer asks kube-scheduler's plugins about each pod of a case.
func Answer(ctx context.Context, c *oracletest.Case) ([]oracletest.Answer, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := open(ctx, c)
	if err != nil {
		return nil, err
	}
	var answers []oracletest.Answer
	for _, pod := range c.Asked() {
		a, err := s.ask(ctx, pod)
		if err != nil {
			return nil, fmt.Errorf("%s, %s: %w", c.Name, pod.Name, err)
		}
		a.Case = c.Name
		answers = append(answers, *a)
	}
	return answers, nil
}

func (s *scheduler) ask(ctx context.Context, pod *v1.Pod) (*oracletest.Answer, error) {
	a := &oracletest.Answer{
		Pod: pod.Namespace + "/" + pod.Name, FilterOrder: filterOrder,
		PreFilter: map[string]oracletest.Status{}, Nodes: map[string]oracletest.NodeAnswer{},
	}
	for _, n := range s.nodes {
		a.Nodes[n.Node().Name] = oracletest.NodeAnswer{Feasible: true, Filters: map[string]oracletest.Status{}, Scores: map[string]oracletest.Rated{}}
	}
	for _, plugin := range s.filters {
		if err := s.filter(ctx, pod, plugin, a); err != nil {
			return nil, fmt.Errorf("%s: %w", plugin.name, err)
		}
	}
	var feasible []fwk.NodeInfo
	for _, n := range s.nodes {
		if a.Nodes[n.Node().Name].Feasible {
			feasible = append(feasible, n)
			a.Feasible = append(a.Feasible, n.Node().Name)
		}
	}
	if len(feasible) == 0 {
		return a, nil
	}
	for _, plugin := range s.scores {
		if err := s.score(ctx, pod, plugin, feasible, a); err != nil {
			return nil, fmt.Errorf("%s: %w", plugin.name, err)
		}
	}
	slices.Sort(a.Feasible) // kube-scheduler's order is that of a map
	s.best(a)
	return a, nil
}

func status(s *fwk.Status) oracletest.Status { return oracletest.Status{Code: s.Code().String()} }

// filter asks one plugin about every node, without the nominated pods, and then
// with those of the node.
func (s *scheduler) filter(ctx context.Context, pod *v1.Pod, plugin named, a *oracletest.Answer) error {
	state := framework.NewCycleState()
	if pre, ok := plugin.Plugin.(fwk.PreFilterPlugin); ok {
		_, got := pre.PreFilter(ctx, state, pod, s.nodes)
		if !got.IsSuccess() {
			a.PreFilter[plugin.name] = status(got)
		}
		if got.Code() == fwk.Error {
			return got.AsError()
		}
		if got.IsSkip() {
			return nil
		}
		if !got.IsSuccess() {
			for name, node := range a.Nodes {
				node.Feasible = false
				a.Nodes[name] = node
			}
			return nil
		}
	}
	for _, n := range s.nodes {
		name := n.Node().Name
		node := a.Nodes[name]
		got := plugin.Plugin.(fwk.FilterPlugin).Filter(ctx, state, pod, n)
		if !got.IsSuccess() {
			node.Feasible, node.Filters[plugin.name] = false, status(got)
		} else if crowded, err := s.crowded(ctx, pod, plugin, state, n); err != nil {
			return err
		} else if crowded {
			node.Feasible, node.Crowded = false, true
		}
		a.Nodes[name] = node
	}
	return nil
}

// crowded says whether the plugin refuses the node once the pods of no lower
// priority are on it for which room is made there.
func (s *scheduler) crowded(ctx context.Context, pod *v1.Pod, plugin named, state fwk.CycleState, n fwk.NodeInfo) (bool, error) {
	var more []*v1.Pod
	for _, p := range s.nominated {
		if p.Status.NominatedNodeName == n.Node().Name && p.UID != pod.UID && corev1helpers.PodPriority(p) >= corev1helpers.PodPriority(pod) {
			more = append(more, p)
		}
	}
	if len(more) == 0 {
		return false, nil
	}
	full, with := n.Snapshot(), state.Clone()
	pre, _ := plugin.Plugin.(fwk.PreFilterPlugin)
	for _, p := range more {
		info, err := framework.NewPodInfo(p)
		if err != nil {
			return false, err
		}
		full.AddPodInfo(info)
		if pre != nil && pre.PreFilterExtensions() != nil {
			if got := pre.PreFilterExtensions().AddPod(ctx, with, pod, info, full); !got.IsSuccess() {
				return false, got.AsError()
			}
		}
	}
	got := plugin.Plugin.(fwk.FilterPlugin).Filter(ctx, with, pod, full)
	if got.Code() == fwk.Error {
		return false, got.AsError()
	}
	return !got.IsSuccess(), nil
}

// score asks one plugin for the scores of the feasible nodes.
func (s *scheduler) score(ctx context.Context, pod *v1.Pod, plugin named, feasible []fwk.NodeInfo, a *oracletest.Answer) error {
	state := framework.NewCycleState()
	order := oracletest.ScorePlugin{Name: plugin.name, Weight: plugin.weight}
	if pre, ok := plugin.Plugin.(fwk.PreScorePlugin); ok {
		got := pre.PreScore(ctx, state, pod, feasible)
		if order.Skipped = got.IsSkip(); !order.Skipped && !got.IsSuccess() {
			return got.AsError()
		}
	}
	a.ScoreOrder = append(a.ScoreOrder, order)
	if order.Skipped {
		return nil
	}
	scorer := plugin.Plugin.(fwk.ScorePlugin)
	var list fwk.NodeScoreList
	for _, n := range feasible {
		raw, got := scorer.Score(ctx, state, pod, n)
		if !got.IsSuccess() {
			return got.AsError()
		}
		list = append(list, fwk.NodeScore{Name: n.Node().Name, Score: raw})
	}
	raw := append(fwk.NodeScoreList(nil), list...)
	if more := scorer.ScoreExtensions(); more != nil {
		if got := more.NormalizeScore(ctx, state, pod, list); !got.IsSuccess() {
			return got.AsError()
		}
	}
	for i, one := range list {
		node := a.Nodes[one.Name]
		rated := oracletest.Rated{Raw: raw[i].Score, Normalized: one.Score, Weighted: one.Score * plugin.weight}
		node.Scores[plugin.name] = rated
		node.Total += rated.Weighted
		a.Nodes[one.Name] = node
	}
	return nil
}

func (s *scheduler) best(a *oracletest.Answer) {
	for i, name := range a.Feasible {
		total := a.Nodes[name].Total
		if i == 0 || total > a.BestTotal {
			a.Best, a.BestTotal = nil, total
		}
		if total == a.BestTotal {
			a.Best = append(a.Best, name)
		}
	}
}
