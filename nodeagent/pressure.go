package nodeagent

import (
	"cmp"
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/berth-dev/berth/nodeagent/node"
	"github.com/berth-dev/berth/nodeagent/pod"
)

// Pressure are limits; zero fields take Kubernetes' defaults.
type Pressure struct {
	// MemoryAvailable in bytes (100 MiB), DiskAvailable as a share of the disk
	// (0.10), InodesAvailable of its inodes (0.05) and PidsAvailable of the
	// process ids (0.10): below them pods are evicted.
	MemoryAvailable                               int64
	DiskAvailable, InodesAvailable, PidsAvailable float64
	// ImagesHigh and ImagesLow are shares of the images' disk in use (0.85,
	// 0.80): from the first on images are removed, down to the second.
	ImagesHigh, ImagesLow float64
	// Every is how often it is looked at (10 s).
	Every time.Duration
}

func (p *Pressure) defaults() {
	p.MemoryAvailable = cmp.Or(p.MemoryAvailable, 100<<20)
	p.DiskAvailable = cmp.Or(p.DiskAvailable, 0.10)
	p.InodesAvailable = cmp.Or(p.InodesAvailable, 0.05)
	p.PidsAvailable = cmp.Or(p.PidsAvailable, 0.10)
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
	if p.memory && !p.disk && !p.pid && (pod.QOS(obj) != v1.PodQOSBestEffort || toleratesMemoryPressure(obj)) {
		return nil
	}
	return &pod.Verdict{Reason: "Evicted", Message: "Pod was rejected: The node had condition: " + p.names()}
}

func toleratesMemoryPressure(obj *v1.Pod) bool {
	taint := v1.Taint{Key: v1.TaintNodeMemoryPressure, Effect: v1.TaintEffectNoSchedule}
	for i := range obj.Spec.Tolerations {
		if obj.Spec.Tolerations[i].ToleratesTaint(klog.Background(), &taint, true) {
			return true
		}
	}
	return false
}

func (p *pressure) names() string {
	names := ""
	for _, one := range []struct {
		is   bool
		name string
	}{{p.disk, "DiskPressure"}, {p.memory, "MemoryPressure"}, {p.pid, "PIDPressure"}} {
		if one.is {
			names += " " + one.name
		}
	}
	return "[" + names[min(1, len(names)):] + "]. "
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
	m, err := a.measure(a.cfg.RootDir)
	if err != nil {
		a.log.Warn("measure the machine", "error", err)
		return
	}
	now := time.Now()
	a.collectImages(ctx, now)
	short := a.cfg.Pressure.short(m)
	is := func(name v1.ResourceName) bool {
		for _, s := range short {
			if s.resource == name {
				return true
			}
		}
		return false
	}
	a.pressure.see(is(v1.ResourceMemory), is(v1.ResourceEphemeralStorage) || is(inodes), is(pids), now)
	if len(short) > 0 {
		a.evict(ctx, short[0])
	}
	a.evictBySize(ctx)
}

// What pods are evicted for beside Kubernetes' resources, in the kubelet's
// words.
const (
	inodes v1.ResourceName = "inodes"
	pids   v1.ResourceName = "pids"
)

// shortage is a resource of which less is left than should be.
type shortage struct {
	resource             v1.ResourceName
	threshold, available int64
}

// short finds what is running out, what is reclaimed first in front: memory.
func (p *Pressure) short(m node.Machine) (found []shortage) {
	share := func(part float64, all int64) int64 { return int64(part * float64(all)) }
	for _, s := range []struct {
		name                      v1.ResourceName
		all, available, threshold int64
	}{
		{v1.ResourceMemory, m.Memory, m.MemoryAvailable, p.MemoryAvailable},
		{v1.ResourceEphemeralStorage, m.Disk, m.DiskAvailable, share(p.DiskAvailable, m.Disk)},
		{inodes, m.Inodes, m.InodesFree, share(p.InodesAvailable, m.Inodes)},
		{pids, m.PidsMax, m.PidsMax - m.PidsUsed, share(p.PidsAvailable, m.PidsMax)},
	} {
		if s.all > 0 && s.available < s.threshold { // a disk may count no inodes
			found = append(found, shortage{s.name, s.threshold, s.available})
		}
	}
	return found
}
