package nodeagent

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	componentresource "k8s.io/component-helpers/resource"

	"github.com/berth-dev/berth/nodeagent/pod"
	"github.com/berth-dev/berth/nodeagent/runtime"
)

// evictGrace is what an evicted pod gets to say goodbye, as from the kubelet.
const evictGrace = time.Second

// leavesWithin is how far from its deadline a pod is waited for, to see what its end
// frees.
const leavesWithin = 30 * time.Second

// candidate is a pod that could be evicted.
type candidate struct {
	pod      *v1.Pod
	priority int32
	usage    int64
	request  int64
	// uses are those of its containers, by name.
	uses map[string]int64
}

// rank orders candidates as the kubelet does: those above their request first,
// then by priority, then by how far above it they are. Process ids are not
// requested: there priority comes first.
func rank(all []candidate, name v1.ResourceName) {
	over := func(c candidate) int {
		if name == pids || c.usage > c.request {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(over(a), over(b)), cmp.Compare(a.priority, b.priority),
			cmp.Compare(b.usage-b.request, a.usage-a.request), cmp.Compare(a.pod.UID, b.pod.UID))
	})
}

// evict ends one pod, the first in rank, unless one is ending: that frees
// something.
func (a *Agent) evict(ctx context.Context, s shortage) {
	stats, err := a.cfg.Runtime.Stats(ctx)
	if err != nil {
		a.log.Warn("measure containers", "err", err)
		return
	}
	a.tell(v1.EventTypeWarning, "EvictionThresholdMet", "Attempting to reclaim %s", s.resource)
	all, leaving := a.candidates(ctx, stats, s.resource)
	if len(all) == 0 || leaving {
		return
	}
	rank(all, s.resource)
	message := evictionMessage(all[0], s)
	a.end(all[0].pod, message, "TerminationByKubelet")
}

// end evicts a pod.
func (a *Agent) end(p *v1.Pod, message, disruption string) {
	a.log.Info("evict a pod", "pod", p.Name, "namespace", p.Namespace, "why", message)
	a.recorder.Eventf(p, v1.EventTypeWarning, "Evicted", "%s", message)
	a.pool.End(string(p.UID), pod.Verdict{Reason: "Evicted", Disruption: disruption, Message: message}, evictGrace)
}

// tell makes an event of the node.
func (a *Agent) tell(kind, reason, format string, args ...any) {
	ref := &v1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: a.cfg.NodeName}
	if self := a.self.Load(); self != nil {
		ref.UID = self.UID
	}
	a.recorder.Eventf(ref, kind, reason, format, args...)
}

// evictionMessage is in the kubelet's words.
func evictionMessage(c candidate, s shortage) string {
	var b strings.Builder
	fmt.Fprintf(&b, "The node was low on resource: %s. Threshold quantity: %s, available: %s. ", s.resource, s.quantity(s.threshold), s.quantity(s.available))
	for _, containers := range [][]v1.Container{c.pod.Spec.Containers, c.pod.Spec.InitContainers} {
		for i := range containers {
			name, request := containers[i].Name, containers[i].Resources.Requests[s.resource]
			if use, ok := c.uses[name]; ok && use > request.Value() {
				fmt.Fprintf(&b, "Container %s was using %s, request is %s, has larger consumption of %s. ", name, s.quantity(use), request.String(), s.resource)
			}
		}
	}
	return b.String()
}

// usedBy is what a container uses of a resource, save of the disk.
func usedBy(s runtime.Stats, name v1.ResourceName) int64 {
	switch name {
	case v1.ResourceMemory:
		return int64(s.WorkingSetBytes)
	case pids:
		return int64(s.Pids)
	}
	return 0
}

func (a *Agent) candidates(ctx context.Context, stats []runtime.Stats, name v1.ResourceName) (all []candidate, leaving bool) {
	uses := map[string]map[string]int64{}
	for _, s := range stats {
		if uses[s.Pod.UID] == nil {
			uses[s.Pod.UID] = map[string]int64{}
		}
		uses[s.Pod.UID][s.Name] += usedBy(s, name)
	}
	var runs []running
	a.pool.Each(func(r *pod.Record) {
		ends := time.Until(r.Deadline())
		switch {
		case r.Finished() || r.Down():
		case r.Terminating() && ends < -leavesWithin: // it hangs
		case r.Terminating() && ends <= leavesWithin:
			leaving = true
		case !critical(r.Pod):
			runs = append(runs, runningOf(r))
		}
	})
	if leaving { // that frees something: nobody is chosen, and nothing need be measured
		return nil, true
	}
	for _, r := range runs {
		c := candidateOf(r.pod, name, uses[string(r.pod.UID)])
		if name == v1.ResourceEphemeralStorage || name == inodes {
			c = a.onDisk(ctx, r, name)
		}
		all = append(all, c)
	}
	return all, false
}

// onDisk is a candidate by what it has on the disk.
func (a *Agent) onDisk(ctx context.Context, r running, name v1.ResourceName) candidate {
	use := a.measureDisk(ctx, r)
	count := func(d runtime.Disk) int64 {
		if name == inodes {
			return d.Files
		}
		return d.Bytes
	}
	uses := map[string]int64{}
	for container, d := range use.containers {
		uses[container] = count(d)
	}
	c := candidateOf(r.pod, name, uses)
	c.usage = count(use.all)
	return c
}

func candidateOf(p *v1.Pod, name v1.ResourceName, uses map[string]int64) candidate {
	q := componentresource.PodRequests(p, componentresource.PodResourcesOptions{})[name]
	c := candidate{pod: p, request: q.Value(), uses: uses}
	for _, n := range uses {
		c.usage += n
	}
	if p.Spec.Priority != nil {
		c.priority = *p.Spec.Priority
	}
	return c
}
