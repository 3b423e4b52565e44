package nodeagent

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	componentresource "k8s.io/component-helpers/resource"

	"github.com/berth-dev/berth/nodeagent/pod"
	"github.com/berth-dev/berth/nodeagent/runtime"
	"github.com/berth-dev/berth/nodeagent/volume"
	"github.com/berth-dev/berth/nodeagent/worker"
)

// running is a pod and the ids of its containers by their names.
type running struct {
	pod *v1.Pod
	ids map[string]string
}

func runningOf(r *pod.Record) running {
	out := running{pod: r.Pod, ids: map[string]string{}}
	for name, c := range r.Containers {
		if c.ID != "" {
			out.ids[name] = c.ID
		}
	}
	return out
}

// diskUse is what a pod has on the disk: what its containers wrote and logged,
// and its emptyDirs.
type diskUse struct {
	all        runtime.Disk
	containers map[string]runtime.Disk
}

// measureDisk walks over all that a pod wrote. What can not be measured counts as
// nothing.
func (a *Agent) measureDisk(ctx context.Context, r running) diskUse {
	use := diskUse{containers: map[string]runtime.Disk{}}
	ids := make([]string, 0, len(r.ids))
	for _, id := range r.ids {
		ids = append(ids, id)
	}
	written, err := a.cfg.Runtime.Written(ctx, ids)
	if err != nil {
		a.log.Warn("measure what a pod wrote", "pod", r.pod.Name, "namespace", r.pod.Namespace, "err", err)
	}
	for name, id := range r.ids {
		var logs runtime.Disk
		logs.Bytes, logs.Files = volume.SizeOf(worker.ContainerLogDir(a.cfg.RootDir, r.pod, name))
		use.containers[name] = written[id].Add(logs)
		use.all = use.all.Add(use.containers[name])
	}
	var dirs runtime.Disk
	dirs.Bytes, dirs.Files = a.volumes.OnDisk(r.pod)
	use.all = use.all.Add(dirs)
	return use
}

// Measuring a pod's disk may take a share of one CPU's time, no more: the next
// look at it is so many times later as the last one took.
const diskPace = 20

// evictBySize ends pods of which an emptyDir, a container or all together take
// more of the disk than they may.
func (a *Agent) evictBySize(ctx context.Context) {
	var runs []running
	a.pool.Each(func(r *pod.Record) {
		if r.SetUp && !r.Terminating() && !r.Finished() && !critical(r.Pod) {
			runs = append(runs, runningOf(r))
		}
	})
	next := make(map[string]time.Time, len(runs))
	for _, r := range runs {
		if ctx.Err() != nil {
			return
		}
		uid, began := string(r.pod.UID), time.Now()
		if next[uid] = a.diskNext[uid]; next[uid].After(began) {
			continue
		}
		if message := a.oversize(ctx, r); message != "" {
			a.end(r.pod, message, "")
		}
		next[uid] = time.Now().Add(diskPace * time.Since(began))
	}
	a.diskNext = next
}

// oversize says, in the kubelet's words, which limit of the disk's a pod is over.
func (a *Agent) oversize(ctx context.Context, r running) string {
	for i := range r.pod.Spec.Volumes {
		v := &r.pod.Spec.Volumes[i]
		if v.EmptyDir == nil || v.EmptyDir.SizeLimit == nil || v.EmptyDir.SizeLimit.Sign() <= 0 {
			continue
		}
		size, err := a.volumes.Size(string(r.pod.UID), v.Name, v.EmptyDir.SizeLimit.Value())
		if err == nil && size > v.EmptyDir.SizeLimit.Value() {
			return fmt.Sprintf("Usage of EmptyDir volume %q exceeds the limit %q. ", v.Name, v.EmptyDir.SizeLimit.String())
		}
	}
	whole, limited := componentresource.PodLimits(r.pod, componentresource.PodResourcesOptions{})[v1.ResourceEphemeralStorage]
	if !limited {
		return "" // a limit of one container is one of the pod, too
	}
	use := a.measureDisk(ctx, r)
	if use.all.Bytes > whole.Value() {
		return fmt.Sprintf("Pod ephemeral local storage usage exceeds the total limit of containers %s. ", whole.String())
	}
	for i := range r.pod.Spec.Containers {
		c := &r.pod.Spec.Containers[i]
		if limit := c.Resources.Limits.StorageEphemeral(); !limit.IsZero() && use.containers[c.Name].Bytes > limit.Value() {
			return fmt.Sprintf("Container %s exceeded its local ephemeral storage limit %q. ", c.Name, limit.String())
		}
	}
	return ""
}
