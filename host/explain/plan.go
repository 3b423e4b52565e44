package explain

import (
	"context"
	"errors"
	"fmt"

	"github.com/berth-dev/berth/host/schedule"

	v1 "k8s.io/api/core/v1"
)

// Placement is where a pod would go.
type Placement struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	// Node is empty where it would go nowhere, for the reason of Message.
	Node    string `json:"node,omitempty"`
	Message string `json:"message,omitempty"`
	// Preempts are the pods that would have to go.
	Preempts []string `json:"preempts,omitempty"`
}

// Plan tells where pods would go, one after the other, from the present state
// on, without placing any. change may put other policies into the live set; nil
// takes those that are live.
func Plan(ctx context.Context, s *schedule.Scheduler, pods []*v1.Pod, change func(*schedule.LiveSet) (*schedule.LiveSet, error)) ([]Placement, error) {
	_, set, err := s.Now(ctx)
	if err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	if set == nil || set.Fresh == nil {
		return nil, errors.New("plan: the live policies cannot be opened a second time")
	}
	fresh, release, err := set.Fresh(ctx)
	if err != nil {
		return nil, fmt.Errorf("plan: open the policies again: %w", err)
	}
	defer release()
	if change != nil {
		if fresh, err = change(fresh); err != nil {
			return nil, fmt.Errorf("plan: %w", err)
		}
	}
	traces, evicted, err := s.Rehearse(ctx, fresh, pods)
	if err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	list := make([]Placement, 0, len(traces))
	for i, t := range traces {
		p := Placement{Namespace: t.Namespace, Pod: t.Name, Node: t.Node, Message: t.Message, Preempts: evicted[i]}
		if t.Outcome == "" {
			p.Message = "no profile claims its schedulerName, or it is gated"
		}
		list = append(list, p)
	}
	return list, nil
}
