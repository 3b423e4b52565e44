package console

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-dev/berth/host/schedule"
)

const (
	// maxGroups is how many reasons a frame holds, maxNamed how many pods it names
	// of each.
	maxGroups = 200
	maxNamed  = 20
)

// pending is the pods without a node, by what they wait for.
type pending struct{}

type pendingFrame struct {
	// Pods is how many there are, Left how many reasons are left out.
	Pods   int            `json:"pods"`
	Left   int            `json:"left,omitempty"`
	Groups []pendingGroup `json:"groups"`
}

// pendingGroup are pods that wait for the same.
type pendingGroup struct {
	Reason string `json:"reason"`
	Count  int    `json:"count"`
	// Tried says that policies were asked, so that there is a decision to look at.
	Tried bool `json:"tried"`
	// Since is when the first of them came, in milliseconds.
	Since int64 `json:"since"`
	// Pods are the oldest of them.
	Pods []pendingPod `json:"pods"`
}

type pendingPod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Since     int64  `json:"since"`
	Attempts  int    `json:"attempts"`
}

func (pending) frame(g schedule.Glance, of visible) any {
	groups := map[string]*pendingGroup{}
	f := &pendingFrame{Groups: []pendingGroup{}}
	byAge := slices.SortedFunc(slices.Values(g.Pending), func(a, b schedule.Pending) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Pod.Namespace, b.Pod.Namespace), cmp.Compare(a.Pod.Name, b.Pod.Name))
	})
	for i := range byAge {
		p := &byAge[i]
		if !of.in(p.Pod.Namespace) {
			continue
		}
		f.Pods++
		reason, tried := waitsFor(p)
		group := groups[reason]
		if group == nil {
			group = &pendingGroup{Reason: reason, Tried: tried, Since: p.Since.UnixMilli()}
			groups[reason] = group
		}
		group.Count++
		if len(group.Pods) < maxNamed {
			group.Pods = append(group.Pods, pendingPod{p.Pod.Namespace, p.Pod.Name, p.Since.UnixMilli(), p.Attempts})
		}
	}
	all := slices.SortedFunc(maps.Values(groups), func(a, b *pendingGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Reason, b.Reason))
	})
	for i, group := range all {
		if i == maxGroups {
			f.Left = len(all) - i
			break
		}
		f.Groups = append(f.Groups, *group)
	}
	return f
}

// waitsFor says what a pod waits for, and whether policies were asked about it.
func waitsFor(p *schedule.Pending) (reason string, tried bool) {
	switch {
	case p.State == "unclaimed":
		return fmt.Sprintf("no profile claims the schedulerName %q", p.Pod.Spec.SchedulerName), false
	case p.State == "gated":
		var gates []string
		for _, gate := range p.Pod.Spec.SchedulingGates {
			gates = append(gates, gate.Name)
		}
		return "its scheduling gates are not removed: " + strings.Join(gates, ", "), false
	case p.Message == "":
		return "it is about to be tried", false
	}
	return p.Message, true
}
