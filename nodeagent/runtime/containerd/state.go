package containerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/containerd/containerd/api/services/tasks/v1"
	tasktypes "github.com/containerd/containerd/api/types/task"
	client "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"

	"github.com/berth-dev/berth/nodeagent/runtime"
)

// load gives a container's record and labels.
func (r *Runtime) load(ctx context.Context, id string) (record, map[string]string, error) {
	info, err := r.client.ContainerService().Get(ctx, id)
	if errdefs.IsNotFound(err) {
		return record{}, nil, fmt.Errorf("container %s: %w", id, runtime.ErrNotFound)
	}
	if err != nil {
		return record{}, nil, err
	}
	rec, ok := readRecord(info)
	if !ok {
		return record{}, nil, fmt.Errorf("container %s is not Berth's: %w", id, runtime.ErrNotFound)
	}
	return rec, info.Labels, nil
}

func (r *Runtime) task(ctx context.Context, id string) (client.Task, error) {
	c, err := r.client.LoadContainer(ctx, id)
	if err != nil {
		return nil, err
	}
	return c.Task(ctx, nil)
}

// runningTask is for calls that need a process.
func (r *Runtime) runningTask(ctx context.Context, id string) (client.Task, record, error) {
	rec, _, err := r.load(ctx, id)
	if err != nil {
		return nil, rec, err
	}
	task, err := r.task(ctx, id)
	if errdefs.IsNotFound(err) {
		return nil, rec, fmt.Errorf("container %s: %w", id, runtime.ErrNotRunning)
	}
	if err != nil {
		return nil, rec, err
	}
	st, err := task.Status(ctx)
	if err != nil {
		return nil, rec, err
	}
	if st.Status != client.Running {
		return nil, rec, fmt.Errorf("container %s is %s: %w", id, st.Status, runtime.ErrNotRunning)
	}
	return task, rec, nil
}

func (r *Runtime) runningPID(ctx context.Context, id string) (uint32, error) {
	task, _, err := r.runningTask(ctx, id)
	if err != nil {
		return 0, err
	}
	return task.Pid(), nil
}

// pausePID is the process whose namespaces a pod's containers join.
func (r *Runtime) pausePID(ctx context.Context, sandbox string) (uint32, error) {
	pid, err := r.runningPID(ctx, sandbox)
	if err != nil {
		return 0, fmt.Errorf("sandbox: %w", err)
	}
	return pid, nil
}

// settle writes down how a container ended, if it did, and deletes its task.
func (r *Runtime) settle(ctx context.Context, id string) error {
	rec, labels, err := r.load(ctx, id)
	if errors.Is(err, runtime.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, ended := readOutcome(labels); ended {
		return r.forget(ctx, id)
	}
	task, err := r.task(ctx, id)
	if errdefs.IsNotFound(err) {
		// Never started, or lost with its shim.
		o := outcome{code: 255, at: time.Now()}
		if labels[labelStarted] == "" {
			o.code = 137
		}
		return r.conclude(ctx, id, o)
	}
	if err != nil {
		return fmt.Errorf("settle %s: %w", id, err)
	}
	st, err := task.Status(ctx)
	if err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("settle %s: %w", id, err)
	}
	if err == nil && st.Status != client.Stopped {
		return nil
	}
	o := outcome{code: int32(st.ExitStatus), at: st.ExitTime}
	if o.at.IsZero() || o.at.Unix() <= 0 {
		o.at = time.Now()
	}
	o.oom = o.code != 0 && oomKills(rec.Cgroup) > 0
	return r.conclude(ctx, id, o)
}

// drainWithin is how long the last output may take to be written.
const drainWithin = 10 * time.Second

// conclude writes an outcome down, once, and then deletes the task, so that
// its shim, its mounts and its cgroup are free.
func (r *Runtime) conclude(ctx context.Context, id string, o outcome) error {
	defer r.settling.Lock(id)()
	rec, labels, err := r.load(ctx, id)
	if errors.Is(err, runtime.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, ended := readOutcome(labels); !ended {
		if !rec.isSandbox() && labels[labelStarted] != "" {
			draining, cancel := context.WithTimeout(ctx, drainWithin)
			_ = r.keeper.Drain(draining, id) // a log that is late is no reason to wait for ever
			cancel()
		}
		c, err := r.client.LoadContainer(ctx, id)
		if err != nil {
			return err
		}
		if _, err := c.SetLabels(ctx, o.labels()); err != nil {
			return fmt.Errorf("write down the end of %s: %w", id, err)
		}
	}
	return r.deleteTask(ctx, id)
}

// forget deletes the task of a container whose end is written down.
func (r *Runtime) forget(ctx context.Context, id string) error {
	defer r.settling.Lock(id)()
	return r.deleteTask(ctx, id)
}

func (r *Runtime) deleteTask(ctx context.Context, id string) error {
	task, err := r.task(ctx, id)
	if errdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := task.Delete(ctx, client.WithProcessKill); err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("delete the task of %s: %w", id, err)
	}
	return nil
}

// processes lists all tasks by container.
func (r *Runtime) processes(ctx context.Context) (map[string]*tasktypes.Process, error) {
	resp, err := r.client.TaskService().List(ctx, &tasks.ListTasksRequest{})
	if err != nil {
		return nil, errgrpc.ToNative(err)
	}
	byID := make(map[string]*tasktypes.Process, len(resp.Tasks))
	for _, p := range resp.Tasks {
		byID[p.ID] = p
	}
	return byID, nil
}

// List implements runtime.Observer.
func (r *Runtime) List(ctx context.Context) (runtime.Listing, error) {
	ctx = r.with(ctx)
	procs, err := r.processes(ctx)
	if err != nil {
		return runtime.Listing{}, fmt.Errorf("list: %w", err)
	}
	infos, err := r.client.ContainerService().List(ctx)
	if err != nil {
		return runtime.Listing{}, fmt.Errorf("list: %w", err)
	}
	var out runtime.Listing
	for _, info := range infos {
		rec, ok := readRecord(info)
		if !ok {
			continue
		}
		proc := procs[info.ID]
		switch {
		case proc != nil && proc.Status == tasktypes.Status_STOPPED:
			info, err = r.settled(ctx, info)
		case proc == nil && lost(info):
			info, proc, err = r.lookAgain(ctx, info)
		}
		if err != nil {
			return runtime.Listing{}, fmt.Errorf("list: %w", err)
		}
		if rec.isSandbox() {
			out.Sandboxes = append(out.Sandboxes, sandboxOf(info, rec, proc))
			continue
		}
		out.Containers = append(out.Containers, containerOf(info, rec, proc))
	}
	return out, nil
}

// settled settles a container whose process has stopped and gives it anew.
func (r *Runtime) settled(ctx context.Context, info containers.Container) (containers.Container, error) {
	if err := r.settle(ctx, info.ID); err != nil {
		return info, err
	}
	again, err := r.client.ContainerService().Get(ctx, info.ID)
	if errdefs.IsNotFound(err) {
		return info, nil
	}
	return again, err
}

// lost: it was started, no end is written down, and its task was not seen.
func lost(info containers.Container) bool {
	_, ended := readOutcome(info.Labels)
	return info.Labels[labelStarted] != "" && !ended
}

// lookAgain is for what moved between the two lists: a task that was started
// after the first, or an end written down after the second.
func (r *Runtime) lookAgain(ctx context.Context, info containers.Container) (containers.Container, *tasktypes.Process, error) {
	resp, err := r.client.TaskService().Get(ctx, &tasks.GetRequest{ContainerID: info.ID})
	if err == nil {
		return info, resp.Process, nil
	}
	if err = errgrpc.ToNative(err); !errdefs.IsNotFound(err) {
		return info, nil, err
	}
	again, err := r.client.ContainerService().Get(ctx, info.ID)
	if errdefs.IsNotFound(err) {
		return info, nil, nil
	}
	return again, nil, err
}

func sandboxOf(info containers.Container, rec record, proc *tasktypes.Process) runtime.Sandbox {
	s := runtime.Sandbox{
		ID: info.ID, Pod: rec.Pod, Attempt: rec.Attempt, State: runtime.Exited, CreatedAt: info.CreatedAt,
		NetNS: rec.NetNS, Labels: rec.Labels, Annotations: rec.Annotations,
	}
	if running(proc) {
		s.State, s.PID = runtime.Running, int(proc.Pid)
	}
	return s
}

func running(proc *tasktypes.Process) bool {
	return proc != nil && (proc.Status == tasktypes.Status_RUNNING || proc.Status == tasktypes.Status_PAUSED)
}

func containerOf(info containers.Container, rec record, proc *tasktypes.Process) runtime.Container {
	c := runtime.Container{
		ID: info.ID, SandboxID: rec.Sandbox, Pod: rec.Pod, Name: rec.Name, Attempt: rec.Attempt, Image: rec.Image,
		MountedImages: rec.MountedImages,
		CreatedAt:     info.CreatedAt, StartedAt: unstamp(info.Labels[labelStarted]), LogPath: rec.Streams.LogPath,
		Labels: rec.Labels, Annotations: rec.Annotations,
	}
	o, ended := readOutcome(info.Labels)
	switch {
	case ended:
		c.State, c.ExitCode, c.FinishedAt, c.OOMKilled = runtime.Exited, o.code, o.at, o.oom
		if c.StartedAt.IsZero() || c.StartedAt.After(o.at) {
			c.StartedAt = o.at
		}
	case running(proc):
		c.State, c.PID = runtime.Running, int(proc.Pid)
	case proc != nil && proc.Status == tasktypes.Status_UNKNOWN:
		c.State = runtime.Unknown
	case proc == nil && !c.StartedAt.IsZero():
		c.State = runtime.Unknown // its shim is gone: after a reboot
	default:
		c.State, c.StartedAt = runtime.Created, time.Time{}
	}
	return c
}

// resync takes up what runs: streams are kept, ends are written down, and what
// a crash left beside containers that are gone is removed.
func (r *Runtime) resync(ctx context.Context) error {
	list, err := r.List(ctx)
	if err != nil {
		return err
	}
	if err := r.tidy(ctx, list); err != nil {
		return err
	}
	for _, c := range list.Containers {
		switch c.State {
		case runtime.Running:
			rec, _, err := r.load(ctx, c.ID)
			if errors.Is(err, runtime.ErrNotFound) {
				continue
			}
			if err == nil {
				err = r.keeper.Keep(ctx, c.ID, rec.Streams)
			}
			if err != nil {
				return fmt.Errorf("take up container %s: %w", c.Name, err)
			}
		case runtime.Unknown:
			if err := r.settle(ctx, c.ID); err != nil {
				return fmt.Errorf("take up container %s: %w", c.Name, err)
			}
		}
	}
	return nil
}

// tidy removes the pipes, shared memory and images of containers that are gone.
func (r *Runtime) tidy(ctx context.Context, list runtime.Listing) error {
	known := map[string]bool{}
	for _, s := range list.Sandboxes {
		known[s.ID] = true
	}
	for _, c := range list.Containers {
		known[c.ID] = true
	}
	var errs []error
	for _, id := range entries(r.pipes("")) {
		if !known[id] {
			errs = append(errs, os.RemoveAll(r.pipes(id)))
		}
	}
	for _, id := range entries(r.shm("")) {
		if !known[id] {
			errs = append(errs, unmountShm(r.shm(id)))
		}
	}
	for _, id := range entries(r.imageDir("")) {
		if !known[id] {
			errs = append(errs, r.unmountImages(ctx, id))
		}
	}
	for _, id := range entries(filepath.Join(r.cfg.State, "userns")) {
		errs = append(errs, releaseNS(filepath.Join(r.cfg.State, "userns", id)))
	}
	return errors.Join(errs...)
}

// entries names what is in a folder; nothing if it is absent.
func entries(dir string) []string {
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	names := make([]string, 0, len(list))
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}
