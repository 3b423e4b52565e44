package worker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/reference"

	"github.com/berth-dev/berth/nodeagent/image"
	"github.com/berth-dev/berth/nodeagent/pod"
	"github.com/berth-dev/berth/nodeagent/podspec"
	"github.com/berth-dev/berth/nodeagent/runtime"
)

// containerRef names a container of a pod for events.
func containerRef(r *pod.Record, name string) *v1.ObjectReference {
	ref, err := reference.GetReference(scheme.Scheme, r.Pod)
	if err != nil {
		ref = &v1.ObjectReference{Namespace: r.Pod.Namespace, Name: r.Pod.Name, UID: r.Pod.UID}
		ref.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Pod"})
	}
	ref.FieldPath = "spec.containers{" + name + "}"
	if c, ok := r.Spec(name); ok && c.Kind == pod.Ephemeral {
		ref.FieldPath = "spec.ephemeralContainers{" + name + "}"
	} else if ok && c.Kind != pod.Regular {
		ref.FieldPath = "spec.initContainers{" + name + "}"
	}
	return ref
}

// setback is why a container did not start: a waiting reason and a message.
type setback struct {
	reason, message string
	// told: other events have said it already.
	told bool
	// pull: the image of this reference is tried for ever more slowly.
	pull  bool
	image string
}

func (s *setback) Error() string { return s.reason + ": " + s.message }

// startContainer brings one container up, from its image to its hook.
func (w *worker) startContainer(ctx context.Context, r *pod.Record, name string) outcome {
	r.Pod = r.Holds()
	spec, ok := r.Spec(name)
	if !ok {
		return func(*pod.Record, time.Time) {} // it left the spec meanwhile
	}
	if r.Containers[name].Regrow { // the pod was left wide enough for the run before
		if err := w.Cgroups.Ensure(podspec.CgroupParent(w.CgroupRoot, r.Pod), w.podLimits(r.Pod)); err != nil {
			w.Log.Warn("narrow a resized pod", "pod", r.Pod.Name, "namespace", r.Pod.Namespace, "err", err)
		}
	}
	run, err := w.bringUp(podspec.Anew(ctx), r, spec)
	if err == nil {
		return w.started(ctx, r, spec, run)
	}
	if ctx.Err() != nil {
		return func(*pod.Record, time.Time) {} // told to stop: no fault of the container
	}
	if errors.Is(err, runtime.ErrStart) && run.ID != "" {
		return w.startError(r, spec, run, err)
	}
	var back *setback
	if !errors.As(err, &back) {
		back = &setback{reason: "CreateContainerError", message: err.Error()}
	}
	what := back.message
	if back.told {
		what = back.reason
	}
	w.containerEvent(r, name, v1.EventTypeWarning, "Failed", "Error: %s", what)
	return func(r *pod.Record, now time.Time) {
		if c, ok := r.Spec(name); ok && c.Image != spec.Image {
			return // another is asked for meanwhile, which need not wait
		}
		if back.pull {
			r.DidNotPull(name, back.image, back.reason, back.message, now)
		} else {
			r.DidNotStart(name, back.reason, back.message, now)
		}
	}
}

// startError notes a container that was made, whose process did not start.
func (w *worker) startError(r *pod.Record, c pod.Spec, run pod.Run, err error) outcome {
	w.containerEvent(r, c.Name, v1.EventTypeWarning, "Failed", "Error: %v", err)
	return func(r *pod.Record, now time.Time) {
		run.StartedAt = now
		r.DidStart(c.Name, run, now)
		r.DidExit(c.Name, pod.Termination{ExitCode: 128, Reason: "StartError", Message: err.Error(), FinishedAt: now})
	}
}

// started runs the postStart hook; a container whose hook fails is ended.
func (w *worker) started(ctx context.Context, r *pod.Record, c pod.Spec, run pod.Run) outcome {
	w.containerEvent(r, c.Name, v1.EventTypeNormal, "Started", "Container started")
	if c.Lifecycle != nil && c.Lifecycle.PostStart != nil {
		if err := w.hook(ctx, r, c, run.ID, c.Lifecycle.PostStart); err != nil && ctx.Err() == nil {
			w.containerEvent(r, c.Name, v1.EventTypeWarning, "FailedPostStartHook", "PostStartHook failed: %v", err)
			r.Containers[c.Name].ID = run.ID
			if err := w.end(ctx, r, c, time.Now().Add(r.Grace()), "FailedPostStartHook"); err != nil && ctx.Err() == nil {
				w.Log.Warn("stop a container whose postStart hook failed", "container", c.Name, "err", err)
			}
		}
	}
	run.Quiet = c.Kind == pod.Regular && len(w.ports(r)) > 0
	return func(r *pod.Record, now time.Time) { r.DidStart(c.Name, run, now) }
}

// bringUp makes and starts a container.
func (w *worker) bringUp(ctx context.Context, r *pod.Record, c pod.Spec) (pod.Run, error) {
	mounted, err := w.volumeImages(ctx, r, c)
	if err != nil {
		return pod.Run{}, err
	}
	img, err := w.ensureImage(ctx, r, w.imageOf(r, c))
	if err != nil {
		return pod.Run{}, err
	}
	s := r.Containers[c.Name]
	attempt := s.NextAttempt()
	cfg, err := w.containerConfig(ctx, r, c, img, mounted, attempt)
	if err != nil {
		return pod.Run{}, &setback{reason: "CreateContainerConfigError", message: err.Error()}
	}
	var run pod.Run
	err = w.inTurn(ctx, func() error {
		run, err = w.createAndStart(ctx, r, c, cfg, attempt)
		return err
	})
	run.ImageID = imageID(img)
	return run, err
}

func (w *worker) createAndStart(ctx context.Context, r *pod.Record, c pod.Spec, cfg runtime.ContainerConfig, attempt uint32) (pod.Run, error) {
	if err := w.clearWay(ctx, r, c, attempt); err != nil {
		return pod.Run{}, err
	}
	id, err := w.create(ctx, r.Sandbox.ID, cfg)
	if err != nil {
		return pod.Run{}, err
	}
	w.containerEvent(r, c.Name, v1.EventTypeNormal, "Created", "Container created")
	run := pod.Run{ID: id, Image: c.Image, LogPath: cfg.LogPath, Resources: c.Resources.DeepCopy()}
	if err := within(ctx, func(ctx context.Context) error { return w.Runtime.StartContainer(ctx, id) }); err != nil {
		if !errors.Is(err, runtime.ErrStart) {
			err = &setback{reason: "RunContainerError", message: err.Error()}
		}
		return run, err
	}
	run.StartedAt = time.Now()
	if user, err := w.Runtime.User(ctx, id); err == nil { // told where it is known
		run.User = &user
	}
	return run, nil
}

// within bounds a call that waits for nothing but the runtime.
func within(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	return call(ctx)
}

func (w *worker) create(ctx context.Context, sandbox string, cfg runtime.ContainerConfig) (id string, err error) {
	err = within(ctx, func(ctx context.Context) error {
		id, err = w.Runtime.CreateContainer(ctx, sandbox, cfg)
		return err
	})
	return id, err
}

// imageID is how statuses name an image: by its digest in a repository.
func imageID(img image.Image) string {
	if len(img.Digests) > 0 {
		return img.Digests[0]
	}
	return img.ID
}

// clearWay removes the run before and the logs that nobody can ask for.
func (w *worker) clearWay(ctx context.Context, r *pod.Record, c pod.Spec, attempt uint32) error {
	s := r.Containers[c.Name]
	if s.ID != "" {
		if err := w.Runtime.RemoveContainer(ctx, s.ID); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(logPath(w.RootDir, r.Pod, c.Name, attempt)), 0o755); err != nil {
		return err
	}
	if attempt < 2 {
		return nil
	}
	old := logPath(w.RootDir, r.Pod, c.Name, attempt-2)
	files, err := filepath.Glob(old + "*")
	if err != nil {
		return err
	}
	for _, f := range append(files, w.messageFile(c.Name, attempt-2)) {
		if err := os.Remove(f); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}

// containerConfig translates a container for the runtime.
func (w *worker) containerConfig(ctx context.Context, r *pod.Record, c pod.Spec, img image.Image, mounted map[string]string, attempt uint32) (runtime.ContainerConfig, error) {
	p := r.Pod
	env, err := podspec.Env(ctx, p, c.Container, img.Config.Env, w.Objects, w.facts(r))
	if err != nil {
		return runtime.ContainerConfig{}, err
	}
	args, err := podspec.Args(c.Container, img.Config.Entrypoint, img.Config.Cmd, env)
	if err != nil {
		return runtime.ContainerConfig{}, err
	}
	security, err := podspec.Security(p, c.Container, img.Config.User, w.SeccompRoot)
	if err != nil {
		return runtime.ContainerConfig{}, err
	}
	mounts, devices, err := w.mounts(r, c, env, mounted, attempt)
	if err != nil {
		return runtime.ContainerConfig{}, err
	}
	cfg := runtime.ContainerConfig{
		Name: c.Name, Attempt: attempt, Image: img.ID, Args: args, Env: env, WorkDir: c.WorkingDir,
		Mounts: mounts, Devices: devices, Stdin: c.Stdin, StdinOnce: c.StdinOnce, TTY: c.TTY,
		LogPath: logPath(w.RootDir, p, c.Name, attempt), LogMaxBytes: w.LogMaxBytes, LogMaxFiles: w.LogMaxFiles,
		StopSignal: img.Config.StopSignal, Resources: w.limits(p, c.Container), Security: security,
	}
	if cfg.WorkDir == "" {
		cfg.WorkDir = img.Config.WorkDir
	}
	if c.Lifecycle != nil && c.Lifecycle.StopSignal != nil {
		cfg.StopSignal = string(*c.Lifecycle.StopSignal)
	}
	if target := r.Containers[c.Target]; c.Target != "" && target != nil {
		cfg.TargetID = target.ID
	}
	return cfg, nil
}

// mounts gives everything that is mounted into a container, parents first. The
// ids of images in mounted are by reference.
func (w *worker) mounts(r *pod.Record, c pod.Spec, env []runtime.EnvVar, mounted map[string]string, attempt uint32) ([]runtime.Mount, []runtime.Device, error) {
	vars := map[string]string{}
	for _, kv := range env {
		vars[kv.Name] = kv.Value
	}
	mounts, devices, err := w.Volumes.Mounts(r.Pod, c.Container, vars, w.Host.RecursiveReadOnly)
	if err != nil {
		return nil, nil, err
	}
	for i := range mounts {
		if m := &mounts[i]; m.Image != "" {
			m.Image = mounted[m.Image]
		}
	}
	mounts = append(mounts, w.etcMounts(r.Pod, c.Container)...)
	if c.TerminationMessagePath != "" {
		file := w.messageFile(c.Name, attempt)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return nil, nil, err
		}
		if err := os.WriteFile(file, nil, 0o666); err != nil {
			return nil, nil, err
		}
		if err := os.Chmod(file, 0o666); err != nil { // whatever the umask is: any user may write it
			return nil, nil, err
		}
		mounts = append(mounts, runtime.Mount{HostPath: file, ContainerPath: c.TerminationMessagePath})
	}
	slices.SortStableFunc(mounts, func(a, b runtime.Mount) int { return strings.Compare(a.ContainerPath, b.ContainerPath) })
	return mounts, devices, nil
}
