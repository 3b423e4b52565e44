package nodeagent

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"

	"github.com/berth-dev/berth/nodeagent/image"
	"github.com/berth-dev/berth/nodeagent/node"
	"github.com/berth-dev/berth/nodeagent/pod"
	"github.com/berth-dev/berth/nodeagent/runtime"
)

// Pressure are limits; zero fields take Kubernetes' defaults.
type Pressure struct {
	// MemoryAvailable in bytes (100 MiB) and DiskAvailable as a share of the
	// disk (0.10): below them pods are evicted.
	MemoryAvailable int64
	DiskAvailable   float64
	// ImagesHigh and ImagesLow are shares of the images' disk in use (0.85,
	// 0.80): from the first on images are removed, down to the second.
	ImagesHigh, ImagesLow float64
	// Every is how often it is looked at (10 s).
	Every time.Duration
}

func (p *Pressure) defaults() {
	p.MemoryAvailable = cmp.Or(p.MemoryAvailable, 100<<20)
	p.DiskAvailable = cmp.Or(p.DiskAvailable, 0.10)
	p.ImagesHigh = cmp.Or(p.ImagesHigh, 0.85)
	p.ImagesLow = cmp.Or(p.ImagesLow, 0.80)
	p.Every = cmp.Or(p.Every, 10*time.Second)
}

// pressure is what was found when the machine was last looked at.
type pressure struct {
	mu                sync.Mutex
	memory, disk, pid bool
	// cleared is when each was last seen; conditions hold on for a while, so
	// that they do not flap.
	memoryAt, diskAt, pidAt time.Time
}

// holdOn is how long a pressure condition outlives its cause.
const holdOn = 5 * time.Minute

func (p *pressure) see(memory, disk, pid bool, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.memory, p.memoryAt = hold(memory, p.memoryAt, now)
	p.disk, p.diskAt = hold(disk, p.diskAt, now)
	p.pid, p.pidAt = hold(pid, p.pidAt, now)
}

func hold(is bool, since, now time.Time) (bool, time.Time) {
	if is {
		return true, now
	}
	return !since.IsZero() && now.Sub(since) < holdOn, since
}

func (p *pressure) conditions() []v1.NodeCondition {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := func(t v1.NodeConditionType, is bool, with, without, text string) v1.NodeCondition {
		if is {
			return v1.NodeCondition{Type: t, Status: v1.ConditionTrue, Reason: with, Message: "kubelet has " + text}
		}
		return v1.NodeCondition{Type: t, Status: v1.ConditionFalse, Reason: without, Message: "kubelet has no " + text}
	}
	pid := one(v1.NodePIDPressure, p.pid, "KubeletHasInsufficientPID", "KubeletHasSufficientPID", "PID pressure")
	return []v1.NodeCondition{
		one(v1.NodeMemoryPressure, p.memory, "KubeletHasInsufficientMemory", "KubeletHasSufficientMemory", "memory pressure"),
		one(v1.NodeDiskPressure, p.disk, "KubeletHasDiskPressure", "KubeletHasNoDiskPressure", "disk pressure"),
		pid,
	}
}

// refuses turns new pods away while the machine is under pressure: all of them
// for disk, best-effort ones for memory, critical ones never.
func (p *pressure) refuses(obj *v1.Pod) *pod.Verdict {
	p.mu.Lock()
	defer p.mu.Unlock()
	if critical(obj) || !p.memory && !p.disk && !p.pid {
		return nil
	}
	if p.memory && !p.disk && !p.pid && pod.QOS(obj) != v1.PodQOSBestEffort {
		return nil
	}
	return &pod.Verdict{Reason: "Evicted", Message: "Pod was rejected: The node had condition: " + p.names()}
}

func (p *pressure) names() string {
	switch {
	case p.disk:
		return "[DiskPressure]."
	case p.pid:
		return "[PIDPressure]."
	}
	return "[MemoryPressure]."
}

// systemCritical is the priority from which on pods are not evicted.
const systemCritical = 2_000_000_000

func critical(p *v1.Pod) bool { return p.Spec.Priority != nil && *p.Spec.Priority >= systemCritical }

// tend watches memory and disk, collects images, and evicts one pod at a time.
func (a *Agent) tend(ctx context.Context) error {
	tick := time.NewTicker(a.cfg.Pressure.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			a.look(ctx)
		}
	}
}

func (a *Agent) look(ctx context.Context) {
	m, err := node.Measure(a.cfg.RootDir)
	if err != nil {
		a.log.Warn("measure the machine", "error", err)
		return
	}
	a.collectImages(ctx)
	memory := m.MemoryAvailable < a.cfg.Pressure.MemoryAvailable
	disk := m.Disk > 0 && float64(m.DiskAvailable) < a.cfg.Pressure.DiskAvailable*float64(m.Disk)
	pid := m.PidsMax > 0 && m.PidsUsed > m.PidsMax*9/10
	a.pressure.see(memory, disk, pid, time.Now())
	if memory || disk {
		a.evict(ctx, memory)
	}
	a.evictBySize(ctx)
}

// collectImages removes unused images, the longest there first.
func (a *Agent) collectImages(ctx context.Context) {
	u, err := a.cfg.Images.Filesystem(ctx)
	if err != nil || u.Capacity <= 0 {
		return
	}
	if used := u.Capacity - u.Available; float64(used) < a.cfg.Pressure.ImagesHigh*float64(u.Capacity) {
		return
	}
	list, err := a.cfg.Images.List(ctx)
	if err != nil {
		a.log.Warn("list images", "error", err)
		return
	}
	used := map[string]bool{}
	if all, err := a.cfg.Runtime.List(ctx); err == nil {
		for _, c := range all.Containers {
			used[c.Image] = true
			for _, id := range c.MountedImages {
				used[id] = true
			}
		}
	} else {
		return // not knowing what is in use, nothing is removed
	}
	need := u.Capacity - u.Available - int64(a.cfg.Pressure.ImagesLow*float64(u.Capacity))
	for _, img := range image.Collect(list, used, need) {
		a.log.Info("remove an unused image", "image", img.ID, "names", img.Names, "bytes", img.Size)
		if err := a.cfg.Images.Remove(ctx, img.ID); err != nil {
			a.log.Warn("remove image", "image", img.ID, "error", err)
		}
	}
}

// candidate is a pod that could be evicted.
type candidate struct {
	pod      *v1.Pod
	priority int32
	usage    int64
	request  int64
}

// rank orders candidates as the kubelet does: those above their request first,
// then by priority, then by how far above it they are.
func rank(all []candidate) {
	slices.SortStableFunc(all, func(a, b candidate) int {
		over := func(c candidate) int {
			if c.usage > c.request {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(over(a), over(b)), cmp.Compare(a.priority, b.priority),
			cmp.Compare(b.usage-b.request, a.usage-a.request), cmp.Compare(a.pod.UID, b.pod.UID))
	})
}

func (a *Agent) evict(ctx context.Context, memory bool) {
	stats, err := a.cfg.Runtime.Stats(ctx)
	if err != nil {
		a.log.Warn("measure containers", "error", err)
		return
	}
	all, leaving := a.candidates(stats, memory)
	if len(all) == 0 || leaving {
		return // one at a time: its end frees something
	}
	rank(all)
	what := "memory"
	if !memory {
		what = "ephemeral-storage"
	}
	victim := all[0].pod
	a.log.Info("evict a pod", "pod", victim.Name, "namespace", victim.Namespace, "resource", what)
	a.pool.End(string(victim.UID), pod.Verdict{
		Reason: "Evicted", Disruption: "TerminationByKubelet", Message: fmt.Sprintf("The node was low on resource: %s. ", what),
	}, 0)
}

func (a *Agent) candidates(stats []runtime.Stats, memory bool) (all []candidate, leaving bool) {
	usage := map[string]int64{}
	for _, s := range stats {
		if memory {
			usage[s.Pod.UID] += int64(s.WorkingSetBytes)
		} else {
			usage[s.Pod.UID] += int64(s.RootFSBytes)
		}
	}
	name := v1.ResourceMemory
	if !memory {
		name = v1.ResourceEphemeralStorage
	}
	a.pool.Each(func(r *pod.Record) {
		if r.Terminating() && !r.Finished() {
			leaving = true
			return
		}
		if r.Finished() || critical(r.Pod) {
			return
		}
		requests := resource.PodRequests(r.Pod, resource.PodResourcesOptions{})
		q := requests[name]
		c := candidate{pod: r.Pod, usage: usage[string(r.Pod.UID)], request: q.Value()}
		if r.Pod.Spec.Priority != nil {
			c.priority = *r.Pod.Spec.Priority
		}
		all = append(all, c)
	})
	return all, leaving
}

// evictBySize ends pods whose emptyDir grew over its limit.
func (a *Agent) evictBySize(ctx context.Context) {
	type over struct{ uid, volume, limit string }
	var found []over
	var pods []*v1.Pod
	a.pool.Each(func(r *pod.Record) {
		if r.SetUp && !r.Terminating() {
			pods = append(pods, r.Pod)
		}
	})
	for _, p := range pods {
		for i := range p.Spec.Volumes {
			e := p.Spec.Volumes[i].EmptyDir
			if e == nil || e.SizeLimit == nil || e.SizeLimit.IsZero() || ctx.Err() != nil {
				continue
			}
			size, err := a.volumes.Size(string(p.UID), p.Spec.Volumes[i].Name, e.SizeLimit.Value())
			if err == nil && size > e.SizeLimit.Value() {
				found = append(found, over{string(p.UID), p.Spec.Volumes[i].Name, e.SizeLimit.String()})
			}
		}
	}
	for _, o := range found {
		a.pool.End(o.uid, pod.Verdict{Reason: "Evicted", Disruption: "TerminationByKubelet",
			Message: fmt.Sprintf("Usage of EmptyDir volume %q exceeds the limit %q. ", o.volume, o.limit)}, 0)
	}
}
