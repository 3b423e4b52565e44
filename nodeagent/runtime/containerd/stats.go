package containerd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	cgroupsv1 "github.com/containerd/cgroups/v3/cgroup1/stats"
	cgroupsv2 "github.com/containerd/cgroups/v3/cgroup2/stats"
	"github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/api/types"
	"github.com/containerd/containerd/v2/pkg/apparmor"
	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"github.com/containerd/typeurl/v2"

	"github.com/berth-dev/berth/nodeagent/runtime"
)

// Stats implements runtime.Observer.
func (r *Runtime) Stats(ctx context.Context) ([]runtime.Stats, error) {
	ctx = r.with(ctx)
	resp, err := r.client.TaskService().Metrics(ctx, &tasks.MetricsRequest{})
	if err != nil {
		return nil, fmt.Errorf("measure containers: %w", errgrpc.ToNative(err))
	}
	infos, err := r.client.ContainerService().List(ctx, "labels.\""+labelKind+"\"==container")
	if err != nil {
		return nil, fmt.Errorf("measure containers: %w", err)
	}
	records := make(map[string]record, len(infos))
	for _, info := range infos {
		if rec, ok := readRecord(info); ok {
			records[info.ID] = rec
		}
	}
	var all []runtime.Stats
	for _, m := range resp.Metrics {
		rec, ok := records[m.ID]
		if !ok {
			continue
		}
		if s, ok := measure(m); ok {
			s.ID, s.Pod, s.Name = m.ID, rec.Pod, rec.Name
			all = append(all, s)
		}
	}
	return all, nil
}

// measure reads the metrics of either cgroup version.
func measure(m *types.Metric) (runtime.Stats, bool) {
	s := runtime.Stats{Time: time.Now()}
	if m.Timestamp != nil {
		s.Time = m.Timestamp.AsTime()
	}
	v, err := typeurl.UnmarshalAny(m.Data)
	if err != nil {
		return s, false
	}
	var idle uint64
	switch v := v.(type) {
	case *cgroupsv1.Metrics:
		s.CPUNanos = v.GetCPU().GetUsage().GetTotal()
		s.MemoryBytes = v.GetMemory().GetUsage().GetUsage()
		idle = v.GetMemory().GetTotalInactiveFile()
		s.Pids = v.GetPids().GetCurrent()
	case *cgroupsv2.Metrics:
		s.CPUNanos = v.GetCPU().GetUsageUsec() * 1000
		s.MemoryBytes = v.GetMemory().GetUsage()
		idle = v.GetMemory().GetInactiveFile()
		s.Pids = v.GetPids().GetCurrent()
	default:
		return s, false
	}
	s.WorkingSetBytes = s.MemoryBytes - min(idle, s.MemoryBytes)
	return s, true
}

// Written implements runtime.Observer.
func (r *Runtime) Written(ctx context.Context, ids []string) (map[string]runtime.Disk, error) {
	ctx = r.with(ctx)
	layers, out := r.client.SnapshotService(r.snapshotter), map[string]runtime.Disk{}
	for _, id := range ids { // a container's own layer has its id
		use, err := layers.Usage(ctx, id)
		if errdefs.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("measure what container %s wrote: %w", id, err)
		}
		out[id] = runtime.Disk{Bytes: use.Size, Files: use.Inodes}
	}
	return out, nil
}

// User implements runtime.Observer.
func (r *Runtime) User(ctx context.Context, id string) (runtime.User, error) {
	ctx = r.with(ctx)
	fail := func(err error) (runtime.User, error) {
		return runtime.User{}, fmt.Errorf("user of container %s: %w", id, err)
	}
	c, err := r.client.LoadContainer(ctx, id)
	if errdefs.IsNotFound(err) {
		return fail(runtime.ErrNotFound)
	}
	if err != nil {
		return fail(err)
	}
	spec, err := c.Spec(ctx)
	if err != nil {
		return fail(err)
	}
	user := runtime.User{UID: int64(spec.Process.User.UID), GID: int64(spec.Process.User.GID)}
	for _, gid := range spec.Process.User.AdditionalGids {
		user.Groups = append(user.Groups, int64(gid))
	}
	return user, nil
}

// Version implements runtime.Observer.
func (r *Runtime) Version(ctx context.Context) (runtime.Version, error) {
	v, err := r.client.Version(r.with(ctx))
	if err != nil {
		return runtime.Version{}, fmt.Errorf("containerd does not answer: %w", err)
	}
	version := v.Version
	if len(version) > 0 && version[0] == 'v' {
		version = version[1:]
	}
	return runtime.Version{
		Name: "containerd", Version: version, UserNamespaces: r.features.userNamespaces, RecursiveReadOnly: r.features.recursiveReadOnly,
		Handlers: slices.Sorted(maps.Keys(r.cfg.Handlers)), AppArmor: apparmor.HostSupports(),
	}, nil
}
