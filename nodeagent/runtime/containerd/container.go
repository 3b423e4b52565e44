package containerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	client "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/core/sandbox"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/errdefs"
	"github.com/moby/sys/signal"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/berth-dev/berth/nodeagent/runtime"
	"github.com/berth-dev/berth/nodeagent/runtime/containerd/keeper"
)

// CreateContainer implements runtime.Containers.
func (r *Runtime) CreateContainer(ctx context.Context, sandboxID string, cfg runtime.ContainerConfig) (string, error) {
	ctx = r.with(ctx)
	fail := func(err error) (string, error) {
		return "", fmt.Errorf("create container %s: %w", cfg.Name, err)
	}
	parent, _, err := r.load(ctx, sandboxID)
	if err != nil {
		return fail(err)
	}
	if err := r.hasHandler(parent.Handler); err != nil {
		return fail(err)
	}
	pid, err := r.pausePID(ctx, sandboxID)
	if err != nil {
		return fail(err)
	}
	target := pid
	if cfg.TargetID != "" {
		if target, err = r.runningPID(ctx, cfg.TargetID); err != nil {
			return fail(err)
		}
	}
	img, err := r.client.GetImage(ctx, cfg.Image)
	if errdefs.IsNotFound(err) {
		return fail(fmt.Errorf("image %s: %w", cfg.Image, runtime.ErrNotFound))
	}
	if err != nil {
		return fail(err)
	}
	if err := r.unpack(ctx, img); err != nil {
		return fail(err)
	}
	images := mountedImages(cfg.Mounts)
	if cfg.Mounts, err = r.imageMounts(ctx, parent, cfg.Mounts); err != nil {
		return fail(err)
	}

	id := newID()
	rec := r.containerRecord(id, parent, cfg)
	rec.MountedImages = images
	opts := r.containerSpec(cfg, parent, rec, pid, target)
	_, err = r.client.NewContainer(ctx, id,
		client.WithContainerLabels(map[string]string{labelKind: "container"}),
		r.withRuntime(rec.Handler), withRecord(rec),
		client.WithSandbox(sandboxID), // whose shim is asked, without the shim's program being run for it
		client.WithSnapshotter(r.snapshotter),
		client.WithImage(img),
		client.WithNewSnapshot(id, img, snapshotIDs(parent.IDs)...),
		client.WithNewSpec(opts...),
	)
	if err != nil {
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		_ = r.client.SnapshotService(r.snapshotter).Remove(undo, id)
		return fail(err)
	}
	return id, nil
}

func (r *Runtime) containerRecord(id string, parent record, cfg runtime.ContainerConfig) record {
	rec := record{
		IDs: parent.IDs, Sandbox: parent.Sandbox, Handler: parent.Handler, Pod: parent.Pod, Name: cfg.Name, Attempt: cfg.Attempt, Image: cfg.Image,
		StdinOnce: cfg.StdinOnce, TTY: cfg.TTY, StopSignal: cfg.StopSignal,
		Cgroup: cgroupOf(parent.CgroupParent, id), Labels: cfg.Labels, Annotations: cfg.Annotations,
		Streams: keeper.Streams{
			Stdout:  filepath.Join(r.pipes(id), "stdout"),
			LogPath: cfg.LogPath, LogMaxBytes: cfg.LogMaxBytes, LogMaxFiles: cfg.LogMaxFiles,
		},
	}
	if cfg.Stdin {
		rec.Streams.Stdin = filepath.Join(r.pipes(id), "stdin")
	}
	if !cfg.TTY {
		rec.Streams.Stderr = filepath.Join(r.pipes(id), "stderr")
	}
	return rec
}

func (r *Runtime) unpack(ctx context.Context, img client.Image) error {
	ok, err := img.IsUnpacked(ctx, r.snapshotter)
	if err != nil || ok {
		return err
	}
	return img.Unpack(ctx, r.snapshotter)
}

// StartContainer implements runtime.Containers.
func (r *Runtime) StartContainer(ctx context.Context, id string) error {
	ctx = r.with(ctx)
	rec, labels, err := r.load(ctx, id)
	if err != nil {
		return fmt.Errorf("start container %s: %w", id, err)
	}
	if _, ended := readOutcome(labels); ended {
		return fmt.Errorf("start container %s: it has ended: %w", id, runtime.ErrNotRunning)
	}
	err = r.start(ctx, id, rec)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("start container %s: %w", rec.Name, err)
	if ctx.Err() != nil || unreachable(err) {
		return err
	}
	o := outcome{code: startCode(err), at: time.Now()}
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	return errors.Join(fmt.Errorf("%w: %w", runtime.ErrStart, err), r.conclude(undo, id, o))
}

func (r *Runtime) start(ctx context.Context, id string, rec record) error {
	if err := os.MkdirAll(r.pipes(id), 0o700); err != nil {
		return err
	}
	if err := r.keeper.Keep(ctx, id, rec.Streams); err != nil {
		return err
	}
	if err := r.makeSandbox(ctx, id, rec.Handler); err != nil {
		return err
	}
	c, err := r.client.LoadContainer(ctx, id)
	if err != nil {
		return err
	}
	pipes := cio.Config{Terminal: rec.TTY, Stdin: rec.Streams.Stdin, Stdout: rec.Streams.Stdout, Stderr: rec.Streams.Stderr}
	owned, err := r.taskIDs(ctx, c, rec.IDs)
	if err != nil {
		return err
	}
	task, err := r.newTask(ctx, c, func(string) (cio.IO, error) { return elsewhere(pipes), nil }, owned...)
	if err != nil {
		return err
	}
	if _, err := c.SetLabels(ctx, map[string]string{labelStarted: stamp(time.Now())}); err != nil {
		return err
	}
	return task.Start(ctx)
}

// newTask makes a container's task, and is not cut off in the midst of it: containerd
// would know of no task then, and the shim keep one that nobody can remove.
func (r *Runtime) newTask(ctx context.Context, c client.Container, io cio.Creator, opts ...client.NewTaskOpts) (client.Task, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), taskWithin)
	defer cancel()
	return c.NewTask(whole, io, opts...)
}

// taskWithin is how long a task may take to be made, as the kubelet has it.
const taskWithin = 2 * time.Minute

// makeSandbox makes a container a sandbox in containerd's eyes. The pause process is
// one for the containers that join it. Any other is one so that a containerd which is
// restarted keeps its task when it has ended: it would reap it unseen, and its exit
// code with it. Older ones know no sandboxes, and reap nothing.
func (r *Runtime) makeSandbox(ctx context.Context, id, handler string) error {
	_, err := r.client.SandboxStore().Create(ctx, sandbox.Sandbox{ID: id, Runtime: sandbox.RuntimeOpts{Name: r.shimOf(handler)}})
	if err != nil && !errdefs.IsAlreadyExists(err) && !errdefs.IsNotImplemented(err) {
		return fmt.Errorf("make a sandbox: %w", err)
	}
	return nil
}

func (r *Runtime) dropSandbox(ctx context.Context, id string) error {
	err := r.client.SandboxStore().Delete(ctx, id)
	if err != nil && !errdefs.IsNotFound(err) && !errdefs.IsNotImplemented(err) {
		return fmt.Errorf("drop a sandbox: %w", err)
	}
	return nil
}

// elsewhere are streams that the keeper copies.
type elsewhere cio.Config

func (e elsewhere) Config() cio.Config { return cio.Config(e) }
func (elsewhere) Cancel()              {}
func (elsewhere) Wait()                {}
func (elsewhere) Close() error         { return nil }

// unreachable: containerd did not answer, so nothing is known of the container.
func unreachable(err error) bool {
	return errdefs.IsUnavailable(err) || status.Code(errors.Unwrap(err)) == codes.Unavailable
}

// startCode is what a shell would give; runc tells the cases apart in words only.
func startCode(err error) int32 {
	text := err.Error()
	if strings.Contains(text, "executable file not found") || strings.Contains(text, "exec: ") && strings.Contains(text, "no such file or directory") {
		return 127
	}
	return 128
}

// StopContainer implements runtime.Containers. A container that was never
// started becomes one that was killed.
func (r *Runtime) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	ctx = r.with(ctx)
	rec, labels, err := r.load(ctx, id)
	if errors.Is(err, runtime.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("stop container %s: %w", id, err)
	}
	if _, ended := readOutcome(labels); ended {
		return nil
	}
	if err := r.end(ctx, id, rec, grace); err != nil {
		return fmt.Errorf("stop container %s: %w", id, err)
	}
	return r.settle(ctx, id)
}

// end signals the task until it has stopped.
func (r *Runtime) end(ctx context.Context, id string, rec record, grace time.Duration) error {
	task, err := r.task(ctx, id)
	if errdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if grace > 0 && !rec.isSandbox() {
		sig, err := signal.ParseSignal(rec.signal())
		if err != nil {
			sig = syscall.SIGTERM // an image's or a pod's nonsense must not keep it alive
		}
		if ended, err := kill(ctx, task, sig, grace); ended || err != nil {
			return err
		}
	}
	for {
		// A second kill reaches what the first came too early for.
		if ended, err := kill(ctx, task, syscall.SIGKILL, 5*time.Second); ended || err != nil {
			return err
		}
	}
}

// kill sends a signal and waits for the end, at most for so long.
func kill(ctx context.Context, task client.Task, sig syscall.Signal, wait time.Duration) (ended bool, err error) {
	waitCtx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	exit, err := task.Wait(waitCtx)
	if errdefs.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if err := task.Kill(ctx, sig); err != nil && !errdefs.IsNotFound(err) {
		if st, stErr := task.Status(ctx); stErr != nil || st.Status != client.Stopped {
			return false, fmt.Errorf("send %v: %w", sig, err)
		}
		return true, nil
	}
	select {
	case status := <-exit:
		if status.Error() == nil {
			return true, nil
		}
	case <-waitCtx.Done():
	}
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	st, err := task.Status(ctx)
	if errdefs.IsNotFound(err) {
		return true, nil
	}
	return err == nil && st.Status == client.Stopped, nil
}

// RemoveContainer implements runtime.Containers.
func (r *Runtime) RemoveContainer(ctx context.Context, id string) error {
	ctx = r.with(ctx)
	if err := r.StopContainer(ctx, id, 0); err != nil {
		return err
	}
	defer r.settling.Lock(id)()
	fail := func(err error) error { return fmt.Errorf("remove container %s: %w", id, err) }
	c, err := r.client.LoadContainer(ctx, id)
	if errdefs.IsNotFound(err) {
		return r.removeTraces(ctx, id)
	}
	if err != nil {
		return fail(err)
	}
	if task, err := c.Task(ctx, nil); err == nil {
		if _, err := task.Delete(ctx, client.WithProcessKill); err != nil && !errdefs.IsNotFound(err) {
			return fail(err)
		}
	} else if !errdefs.IsNotFound(err) {
		return fail(err)
	}
	if err := c.Delete(ctx, withSnapshotCleanup); err != nil && !errdefs.IsNotFound(err) {
		return fail(err)
	}
	return r.removeTraces(ctx, id)
}

// withSnapshotCleanup removes the container's own layer, if it has one.
func withSnapshotCleanup(ctx context.Context, c *client.Client, info containers.Container) error {
	if info.SnapshotKey == "" {
		return nil
	}
	return client.WithSnapshotCleanup(ctx, c, info)
}

// removeTraces removes what lies beside a container.
func (r *Runtime) removeTraces(ctx context.Context, id string) error {
	if err := r.dropSandbox(ctx, id); err != nil {
		return fmt.Errorf("remove container %s: %w", id, err)
	}
	if err := r.keeper.Drop(ctx, id); err != nil {
		return fmt.Errorf("remove container %s: %w", id, err)
	}
	if err := os.RemoveAll(r.pipes(id)); err != nil {
		return fmt.Errorf("remove container %s: %w", id, err)
	}
	return nil
}

// UpdateContainer implements runtime.Containers.
func (r *Runtime) UpdateContainer(ctx context.Context, id string, res runtime.Resources) error {
	ctx = r.with(ctx)
	fail := func(err error) error { return fmt.Errorf("update container %s: %w", id, err) }
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
	limits := resources(res)
	devices := spec.Linux.Resources.Devices
	spec.Linux.Resources = limits
	spec.Linux.Resources.Devices = devices
	if err := c.Update(ctx, client.UpdateContainerOpts(client.WithSpec(spec))); err != nil {
		return fail(err)
	}
	task, err := c.Task(ctx, nil)
	if errdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fail(err)
	}
	limits.Devices = nil
	if err := task.Update(ctx, client.WithResources(limits)); err != nil {
		return fail(err)
	}
	return nil
}
