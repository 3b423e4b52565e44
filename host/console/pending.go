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
	// of the one that is open, maxReasons how many bytes the reasons may have: at one
	// frame a second a tab stays below 64 KiB/s.
	maxGroups  = 200
	maxNamed   = 20
	maxReasons = 32 << 10
)

// waiting are pods of one namespace that wait for the same.
type waiting struct {
	reason, namespace string
	tried             bool
	count             int
	// oldest are the first that came, maxNamed at most.
	oldest []pendingPod
}

// byReason puts pods together, for all tabs at once.
func byReason(all []schedule.Pending) []waiting {
	type key struct{ reason, namespace string }
	at := map[key]int{}
	var groups []waiting
	slices.SortFunc(all, func(a, b schedule.Pending) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Pod.Namespace, b.Pod.Namespace), cmp.Compare(a.Pod.Name, b.Pod.Name))
	})
	for i := range all {
		p := &all[i]
		reason, tried := waitsFor(p)
		of := key{reason, p.Pod.Namespace}
		n, known := at[of]
		if !known {
			n, at[of] = len(groups), len(groups)
			groups = append(groups, waiting{reason: reason, namespace: p.Pod.Namespace, tried: tried})
		}
		g := &groups[n]
		g.count++
		if len(g.oldest) < maxNamed {
			g.oldest = append(g.oldest, pendingPod{p.Pod.Namespace, p.Pod.Name, p.Since.UnixMilli(), p.Attempts})
		}
	}
	return groups
}

// pending is the pods without a node, by what they wait for.
type pending struct {
	// open is the reason whose pods are named.
	open string
}

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
	// Pods are the oldest of them, of the group that is open.
	Pods []pendingPod `json:"pods,omitempty"`
}

type pendingPod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Since     int64  `json:"since"`
	Attempts  int    `json:"attempts"`
}

func (v pending) frame(all []waiting, of visible) any {
	groups := map[string]*pendingGroup{}
	f := &pendingFrame{Groups: []pendingGroup{}}
	for i := range all {
		w := &all[i]
		if !of.in(w.namespace) {
			continue
		}
		f.Pods += w.count
		group := groups[w.reason]
		if group == nil {
			group = &pendingGroup{Reason: w.reason, Tried: w.tried, Since: w.oldest[0].Since}
			groups[w.reason] = group
		}
		group.Count += w.count
		group.Since = min(group.Since, w.oldest[0].Since)
		if w.reason == v.open {
			group.Pods = append(group.Pods, w.oldest...)
		}
	}
	v.take(f, groups)
	return f
}

// take fills the frame with the groups of the most pods, and the one that is open.
func (v pending) take(f *pendingFrame, groups map[string]*pendingGroup) {
	size := 0
	for _, group := range slices.SortedFunc(maps.Values(groups), func(a, b *pendingGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Reason, b.Reason))
	}) {
		size += len(group.Reason)
		if group.Reason != v.open && (len(f.Groups) >= maxGroups || size > maxReasons) {
			f.Left++
			continue
		}
		slices.SortFunc(group.Pods, func(a, b pendingPod) int {
			return cmp.Or(cmp.Compare(a.Since, b.Since), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		})
		group.Pods = group.Pods[:min(len(group.Pods), maxNamed)]
		f.Groups = append(f.Groups, *group)
	}
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
