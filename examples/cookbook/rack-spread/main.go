// Command rack-spread spreads the pods of an application over racks, which a
// label of the nodes names. It looks at more than one row, so it takes the full
// face of the SDK, with counts of its own.
package main

import (
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/facts"
	"github.com/berth-dev/berth/sdk/guest"
	"github.com/berth-dev/berth/sdk/row"
)

type app struct{ namespace, name facts.Symbol }

type rackSpread struct {
	rows      *row.Table
	rack, app facts.Symbol           // labels of nodes and pods
	pods      map[app][]int64        // by slot
	sums      map[facts.Symbol]int64 // of the cycle's application, by rack
	most      int64
}

func open(s *guest.Setup) (any, error) {
	rack, name := s.Config.String("rack", "rack"), s.Config.String("app", "app")
	return &rackSpread{
		rows: s.Rows, rack: s.Rows.Symbols.Intern(rack), app: s.Rows.Symbols.Intern(name),
		pods: map[app][]int64{}, sums: map[facts.Symbol]int64{},
	}, s.Config.OnlyKeys("rack", "app")
}

func (r *rackSpread) PodPlaced(slot int32, pod *sdk.Pod)  { r.count(slot, pod, 1) }
func (r *rackSpread) PodRemoved(slot int32, pod *sdk.Pod) { r.count(slot, pod, -1) }

func (r *rackSpread) count(slot int32, pod *sdk.Pod, n int64) {
	k := app{pod.Namespace, pod.Labels.Value(r.app)}
	for int(slot) >= len(r.pods[k]) {
		r.pods[k] = append(r.pods[k], 0)
	}
	r.pods[k][slot] += n
}

// PreScore adds up by rack. A node without a rack is as bad as the worst.
func (r *rackSpread) PreScore(pod *sdk.Pod) guest.Answer {
	clear(r.sums)
	r.most = 0
	racks := r.rows.LabelColumn(r.rack)
	for slot, n := range r.pods[app{pod.Namespace, pod.Labels.Value(r.app)}] {
		if slot < len(racks) && racks[slot] != facts.NoSymbol {
			r.sums[racks[slot]] += n
			r.most = max(r.most, r.sums[racks[slot]])
		}
	}
	return guest.AskRows
}

func (r *rackSpread) ScoreRows(slots []int32, scores []int64) {
	racks := r.rows.LabelColumn(r.rack)
	for i, slot := range slots {
		if scores[i] = r.most; racks[slot] != facts.NoSymbol {
			scores[i] = r.sums[racks[slot]]
		}
	}
}

func init() {
	guest.Register(guest.Policy{
		Name: "RackSpread", Kind: guest.KindPriority, Scope: guest.ScopeSet, Normalize: sdk.NormalizeMaxReversed,
		Description: "Spreads the pods of an application over racks.",
		Reads:       sdk.PodLabels | sdk.NodeLabels | sdk.Pods, Open: open,
	})
}

func main() {}
