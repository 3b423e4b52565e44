package explain

import (
	"context"
	"fmt"

	"github.com/berth-dev/berth/host/schedule"
	"github.com/berth-dev/berth/host/schedule/framework"

	v1 "k8s.io/api/core/v1"
)

// Placement is where a pod would go.
type Placement struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	// Node is empty where it would go nowhere, for the reason of Message.
	Node    string `json:"node,omitempty"`
	Message string `json:"message,omitempty"`
	// Nodes were looked at, Feasible of them can take it, Tied of those have the
	// best Score, Node's.
	Nodes    int   `json:"nodes"`
	Feasible int   `json:"feasible"`
	Tied     int   `json:"tied,omitempty"`
	Score    int64 `json:"score,omitempty"`
	// Preempts are the pods that would have to go.
	Preempts []string `json:"preempts,omitempty"`
	// Differs says, in a plan with other policies, that those which are live
	// would place it elsewhere: at Live, empty for nowhere.
	Differs bool   `json:"differs,omitempty"`
	Live    string `json:"live,omitempty"`
}

// Plan tells where pods would go, one after the other, from the present state
// on, without placing any. set must have been opened for this alone.
func Plan(ctx context.Context, s *schedule.Scheduler, set *framework.LiveSet, pods []*v1.Pod) ([]Placement, error) {
	traces, evicted, err := s.Rehearse(ctx, set, pods)
	if err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	list := make([]Placement, 0, len(traces))
	for i, t := range traces {
		p := Placement{Namespace: t.Namespace, Pod: t.Name, Node: t.Node, Message: t.Message, Preempts: evicted[i],
			Nodes: t.Nodes, Feasible: t.Feasible, Tied: t.Tied, Score: t.Total,
		}
		if t.Outcome == "" {
			p.Message = "no profile claims its schedulerName, or it is gated"
		}
		list = append(list, p)
	}
	return list, nil
}

// Compare notes in a plan where another one of the same pods differs.
func Compare(plan, live []Placement) {
	for i := range plan {
		plan[i].Live = live[i].Node
		plan[i].Differs = live[i].Node != plan[i].Node
	}
}
