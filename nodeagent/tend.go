package nodeagent

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/nodeagent/pod"
	"github.com/berth-dev/berth/nodeagent/podspec"
	"github.com/berth-dev/berth/nodeagent/runtime"
	"github.com/berth-dev/berth/nodeagent/worker"
)

// refreshEvery is the pace at which volumes follow the API.
const refreshEvery = time.Minute

// refresh brings the volumes of running pods up to date.
func (a *Agent) refresh(ctx context.Context) error {
	tick := time.NewTicker(refreshEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			a.refreshAll(ctx)
		}
	}
}

type refreshed struct {
	pod   *v1.Pod
	facts podspec.Facts
}

func (a *Agent) refreshAll(ctx context.Context) {
	var all []refreshed
	a.pool.Each(func(r *pod.Record) {
		if !r.SetUp || r.Terminating() || r.Finished() {
			return
		}
		f := podspec.Facts{HostIPs: []string{a.address}, Allocatable: a.allocatable()}
		for _, ip := range r.Sandbox.IPs {
			f.PodIPs = append(f.PodIPs, ip.String())
		}
		all = append(all, refreshed{r.Pod, f})
	})
	for _, one := range all {
		if err := a.volumes.Refresh(ctx, one.pod, one.facts); err != nil && ctx.Err() == nil {
			a.log.Warn("refresh volumes", "pod", one.pod.Name, "namespace", one.pod.Namespace, "err", err)
		}
	}
}

// sweep removes what no pod owns: sandboxes, networks, folders and cgroups that
// a crash left. It runs once, when the API has said which pods there are. What is there
// is listed first, then the pods: those that come meanwhile keep what they made.
func (a *Agent) sweep(ctx context.Context, known map[string]bool) {
	warn := func(what string, err error) {
		if err != nil {
			a.log.Warn("sweep: "+what, "err", err)
		}
	}
	all, err := a.cfg.Runtime.List(ctx)
	warn("list containers", err)
	volumes, err := a.volumes.Pods()
	warn("list volumes", err)
	logs, err := filepath.Glob(filepath.Join(a.cfg.RootDir, "logs", "*"))
	warn("list logs", err)
	var cgroups []string
	if tree, ok := a.cfg.Cgroups.(interface{ Pods(root string) []string }); ok {
		cgroups = tree.Pods(a.cfg.CgroupRoot)
	}
	keep := maps.Clone(known)
	a.pool.Each(func(r *pod.Record) { keep[string(r.Pod.UID)] = true })

	a.sweepRuntime(ctx, all, keep, warn)
	warn("networks", a.cfg.Network.Sweep(ctx, func() []string { return a.attachments(all, keep) }))
	for _, uid := range volumes {
		if !keep[uid] {
			warn("volumes", a.volumes.TearDown(uid))
			a.ids.Release(uid)
		}
	}
	for _, d := range logs {
		if _, uid, ok := cutLast(filepath.Base(d), "_"); ok && !keep[uid] {
			warn("logs", os.RemoveAll(d))
		}
	}
	for _, uid := range cgroups {
		if !keep[uid] {
			a.removeCgroups(uid, warn)
		}
	}
}

func (a *Agent) sweepRuntime(ctx context.Context, all runtime.Listing, keep map[string]bool, warn func(string, error)) {
	for _, s := range all.Sandboxes {
		if !keep[s.Pod.UID] {
			a.log.Info("remove an orphaned sandbox", "pod", s.Pod.Name, "namespace", s.Pod.Namespace)
			warn("remove sandbox", a.cfg.Runtime.RemoveSandbox(ctx, s.ID))
		}
	}
	for _, c := range all.Containers {
		if !keep[c.Pod.UID] {
			warn("remove container", a.cfg.Runtime.RemoveContainer(ctx, c.ID))
		}
	}
}

// attachments are the networks that stay: those of running sandboxes and of the pods
// that there are now.
func (a *Agent) attachments(all runtime.Listing, keep map[string]bool) (ids []string) {
	for _, s := range all.Sandboxes {
		if keep[s.Pod.UID] && s.State == runtime.Running {
			ids = append(ids, worker.NetworkID(s.Pod.UID, s.Attempt))
		}
	}
	a.pool.Each(func(r *pod.Record) {
		ids = append(ids, worker.NetworkID(string(r.Pod.UID), r.Sandbox.Attempt))
	})
	return ids
}

func (a *Agent) removeCgroups(uid string, warn func(string, error)) {
	for _, class := range []string{"", "/burstable", "/besteffort"} {
		warn("cgroup", a.cfg.Cgroups.Remove(a.cfg.CgroupRoot+"/kubepods"+class+"/pod"+uid))
	}
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
