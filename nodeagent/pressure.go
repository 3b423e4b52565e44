package nodeagent

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/berth-dev/berth/nodeagent/image"
	"github.com/berth-dev/berth/nodeagent/pod"
	"github.com/berth-dev/berth/nodeagent/static"
)

// Pressure are limits; zero fields take Kubernetes' defaults.
type Pressure struct {
	// Hard is how much of each must be left, or pods are evicted. Signals that
	// are absent have their defaults; a zero Threshold is none.
	Hard map[Signal]Threshold
	// ImagesHigh and ImagesLow are percentages of the images' disk in use (85 and
	// 80; set both or none): from the first on images are removed, down to the
	// second. 100 and above removes none.
	ImagesHigh, ImagesLow int
	// Every is how often it is looked at (10 s).
	Every time.Duration
}

func (p *Pressure) defaults() {
	hard := maps.Clone(hardDefaults)
	maps.Copy(hard, p.Hard)
	p.Hard = hard
	if p.ImagesHigh == 0 {
		p.ImagesHigh, p.ImagesLow = 85, 80
	}
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

// see takes what is short now, and says whether a pressure has begun by it, or
// the last has ended.
func (p *pressure) see(memory, disk, pid bool, now time.Time) (begun, ended bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	begun = memory && !p.memory || disk && !p.disk || pid && !p.pid
	was := p.memory || p.disk || p.pid
	p.memory, p.memoryAt = hold(memory, p.memoryAt, now)
	p.disk, p.diskAt = hold(disk, p.diskAt, now)
	p.pid, p.pidAt = hold(pid, p.pidAt, now)
	return begun, was && !p.memory && !p.disk && !p.pid
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

// critical pods are neither evicted nor refused under pressure. Static ones are, as
// the kubelet has it: nobody would make them anew.
func critical(p *v1.Pod) bool { return static.Is(p) || criticalByPriority(p) }

// criticalByPriority is what a shutdown goes by.
func criticalByPriority(p *v1.Pod) bool {
	return p.Spec.Priority != nil && *p.Spec.Priority >= systemCritical
}

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
	a.weighClasses()
	images := a.filesystem(ctx)
	short, err := a.sizeUp(images)
	if err != nil {
		a.log.Warn("measure the machine", "err", err)
		return
	}
	disk := slices.ContainsFunc(short, func(s shortage) bool { return s.ofDisk() })
	if a.collectImages(ctx, images, disk, time.Now()) && disk { // that may do
		if short, err = a.sizeUp(a.filesystem(ctx)); err != nil {
			a.log.Warn("measure the machine", "err", err)
			return
		}
	}
	if len(short) > 0 {
		a.evict(ctx, short[0])
	}
	a.evictBySize(ctx)
}

// sizeUp finds what is running out, shows it in the Node's conditions, and says
// so when it begins.
func (a *Agent) sizeUp(images image.Usage) ([]shortage, error) {
	m, err := a.measure(a.cfg.RootDir)
	if err != nil {
		return nil, err
	}
	short := a.cfg.Pressure.short(m, images)
	is := func(name v1.ResourceName) bool {
		return slices.ContainsFunc(short, func(s shortage) bool { return s.resource == name })
	}
	begun, ended := a.pressure.see(is(v1.ResourceMemory), is(v1.ResourceEphemeralStorage) || is(inodes), is(pids), time.Now())
	if ended {
		a.log.Info("the node is out of pressure: pods are taken again")
	}
	for i := range short {
		if s := &short[i]; begun {
			a.log.Warn("the node is short of "+string(s.resource)+": "+s.refused(), "signal", string(s.signal),
				"available", s.figure(s.available), "threshold", s.figure(s.threshold), "remedy", s.remedy(a.cfg.RootDir))
		}
	}
	return short, nil
}
