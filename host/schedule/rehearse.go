package schedule

import (
	"context"
	"fmt"

	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/snapshot"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Rehearse decides about pods by the policies of set, from the present state
// on, as if each were bound at once; nothing comes of it. The policies must be
// opened for this alone. It returns one trace for each pod, with an empty
// Outcome for one that was not tried, and by pod whom it would preempt.
func (s *Scheduler) Rehearse(ctx context.Context, set *framework.LiveSet, pods []*v1.Pod) ([]Trace, [][]string, error) {
	var copied *snapshot.Cluster
	var of core
	if err := s.ask(ctx, func(c *core) { copied, of = c.cluster.Clone(), c.copyFor() }); err != nil {
		return nil, nil, err
	}
	config := s.config
	config.Set, config.OnDivergence, config.Failed, config.Decided = func() *framework.LiveSet { return set }, nil, nil, nil
	c := newCore(config)
	c.cluster, c.latest, c.budgets = copied, of.latest, of.budgets
	c.ledger = newLedger(copied)
	traces, preempts := make([]Trace, len(pods)), make([][]string, len(pods))
	for i, pod := range pods {
		if pod.UID == "" {
			pod = pod.DeepCopy()
			pod.UID = types.UID(fmt.Sprintf("rehearsed-%d", i))
		}
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		traces[i], preempts[i] = c.rehearse(ctx, pod)
	}
	return traces, preempts, nil
}

// copyFor copies what a rehearsal reads and the loop goes on changing.
func (c *core) copyFor() core {
	latest := make(map[types.UID]*v1.Pod, len(c.latest))
	for uid, pod := range c.latest {
		latest[uid] = pod
	}
	return core{latest: latest, budgets: append(c.budgets[:0:0], c.budgets...)}
}

// rehearse decides about one pod, and binds it.
func (c *core) rehearse(ctx context.Context, object *v1.Pod) (Trace, []string) {
	trace := Trace{Namespace: object.Namespace, Name: object.Name, UID: object.UID}
	c.out = outbox{}
	c.applyPod(object, false, c.clock())
	if !c.step(ctx) {
		c.forgetPod(object.UID, c.clock())
		return trace, nil
	}
	if t, ok := c.traces.Of(object.Namespace, object.Name); ok && t.UID == object.UID {
		trace = t
	}
	var victims []string
	if trace.Made != "" {
		// With the victims gone, of which some may be leaving already, it goes
		// where room was made.
		for _, v := range trace.Preemption.Victims {
			victims = append(victims, v.Pod.Object.Namespace+"/"+v.Pod.Object.Name)
			c.forgetPod(v.Pod.UID(), c.clock())
		}
		trace.Node = trace.Made
		c.queue.Delete(object.UID)
		c.cluster.Place(trace.Pod, trace.Made)
	}
	if trace.Outcome == Placed {
		c.bound(object.UID, nil, c.clock())
	}
	c.queue.Delete(object.UID)
	return trace, victims
}
