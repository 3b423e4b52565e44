package containerd

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	runcoptions "github.com/containerd/containerd/api/types/runc/options"
	client "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/contrib/seccomp"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/containerd/v2/pkg/oci"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/nodeagent/runtime"
	"github.com/berth-dev/berth/nodeagent/runtime/containerd/pause"
)

// shimGroup is the annotation by which containers come under one shim; by shimRole
// those of virtual machines know which of them is to be one.
const (
	shimGroup = "io.kubernetes.cri.sandbox-id"
	shimRole  = "io.kubernetes.cri.container-type"
)

const shimRuntime = "io.containerd.runc.v2"

// newID gives an id that is never used twice.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails, by its documentation
	return hex.EncodeToString(b[:])
}

// defaultHandler is what a pod has that names no other.
const defaultHandler = "runc"

// withRuntime chooses a pod's runtime, by default runc. What is run as runc is has
// state of its own, beside other agents'.
func (r *Runtime) withRuntime(handler string) client.NewContainerOpts {
	shim := r.shimOf(handler)
	if shim != shimRuntime {
		return client.WithRuntime(shim, nil)
	}
	binary, root := r.runc, defaultHandler
	if of := r.cfg.Handlers[handler]; of != "" {
		binary, root = of, filepath.Join("handlers", handler)
	}
	return client.WithRuntime(shim, &runcoptions.Options{BinaryName: binary, Root: filepath.Join(r.cfg.State, root)})
}

// shimOf is the name of containerd's part of a runtime.
func (r *Runtime) shimOf(handler string) string {
	if of := r.cfg.Handlers[handler]; of != "" && !filepath.IsAbs(of) {
		return of
	}
	return shimRuntime
}

// hasHandler refuses what would otherwise run by runc.
func (r *Runtime) hasHandler(handler string) error {
	if _, ok := r.cfg.Handlers[handler]; ok || handler == "" || handler == defaultHandler {
		return nil
	}
	return fmt.Errorf("no runtime handler %q on this node; it has %s", handler, strings.Join(append(slices.Sorted(maps.Keys(r.cfg.Handlers)), defaultHandler), ", "))
}

func withRecord(rec record) client.NewContainerOpts {
	return client.WithContainerExtension(extension, &rec)
}

// RunSandbox implements runtime.Sandboxes.
func (r *Runtime) RunSandbox(ctx context.Context, cfg runtime.SandboxConfig) (_ string, err error) {
	ctx = r.with(ctx)
	if err := r.runs(cfg); err != nil {
		return "", fmt.Errorf("run sandbox: %w", err)
	}
	id := newID()
	rec := record{
		IDs:     cfg.IDs,
		Sandbox: id, Pod: cfg.Pod, Attempt: cfg.Attempt, Handler: cfg.Handler, NetNS: cfg.NetNS, CgroupParent: cfg.CgroupParent,
		HostPID: cfg.HostPID, HostIPC: cfg.HostIPC, ShareProcesses: cfg.ShareProcesses, Hostname: cfg.Hostname,
		Cgroup: cgroupOf(cfg.CgroupParent, id), Labels: cfg.Labels, Annotations: cfg.Annotations,
	}
	defer func() {
		if err != nil {
			undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
			defer cancel()
			err = errors.Join(err, r.RemoveSandbox(undo, id))
		}
	}()
	if !cfg.HostIPC {
		if err := mountShm(r.shm(id)); err != nil {
			return "", err
		}
	}
	owner := ""
	if !cfg.IDs.IsHost() {
		path, release, err := r.ownerOf(cfg.NetNS, id)
		if err != nil {
			return "", fmt.Errorf("run sandbox: %w", err)
		}
		defer release()
		owner = path
	}
	c, err := r.client.NewContainer(ctx, id,
		client.WithContainerLabels(map[string]string{labelKind: "sandbox", labelStarted: stamp(time.Now())}),
		r.withRuntime(rec.Handler), withRecord(rec),
		client.WithNewSpec(append(r.sandboxSpec(cfg, rec), withUserNamespace(cfg.IDs, owner))...),
	)
	if err != nil {
		return "", fmt.Errorf("run sandbox: %w", err)
	}
	owned, err := r.taskIDs(ctx, c, cfg.IDs)
	if err != nil {
		return "", fmt.Errorf("run sandbox: %w", err)
	}
	if owner != "" {
		owned = append(owned, client.WithRootFS([]mount.Mount{{Type: "bind", Source: r.pauseRoot(), Options: []string{"rbind", "ro"}}}))
	}
	if err := r.makeSandbox(ctx, id, rec.Handler); err != nil {
		return "", fmt.Errorf("run sandbox: %w", err)
	}
	task, err := r.newTask(ctx, c, cio.NullIO, owned...)
	if err != nil {
		return "", fmt.Errorf("run sandbox: %w", err)
	}
	if err := task.Start(ctx); err != nil {
		return "", fmt.Errorf("run sandbox: start pause: %w", err)
	}
	return id, nil
}

// runs tells what of a sandbox this machine cannot have.
func (r *Runtime) runs(cfg runtime.SandboxConfig) error {
	if err := r.hasHandler(cfg.Handler); err != nil {
		return err
	}
	if !cfg.IDs.IsHost() && r.cfg.Handlers[cfg.Handler] != "" {
		return fmt.Errorf("runtime handler %q has no user namespaces here: leave out spec.hostUsers", cfg.Handler)
	}
	if !cfg.IDs.IsHost() && (cfg.NetNS == "" || !r.features.userNamespaces) {
		return errors.New("a user namespace needs a network namespace of its own, and a runc with idmapped mounts")
	}
	return nil
}

// sandboxSpec is the pause process: nothing but the namespaces.
func (r *Runtime) sandboxSpec(cfg runtime.SandboxConfig, rec record) []oci.SpecOpts {
	root := r.pauseRoot()
	if !cfg.IDs.IsHost() {
		root = "rootfs" // in the task's folder: its users may not enter the agent's folders
	}
	opts := []oci.SpecOpts{
		oci.WithRootFSPath(root),
		oci.WithRootFSReadonly(),
		oci.WithProcessArgs("/" + pause.Name),
		oci.WithAnnotations(map[string]string{shimGroup: rec.Sandbox, shimRole: "sandbox"}),
		oci.WithCgroup(rec.Cgroup),
		oci.WithCapabilities(nil),
		oci.WithCPUShares(2),
		oci.WithUIDGID(65535, 65535),
		oci.WithNoNewPrivileges,
		pauseMounts,
		withOOMScore(-998),
		withFileLimit,
	}
	if cfg.NetNS == "" {
		opts = append(opts, oci.WithHostNamespace(specs.NetworkNamespace), oci.WithHostNamespace(specs.UTSNamespace))
	} else {
		opts = append(opts, oci.WithLinuxNamespace(specs.LinuxNamespace{Type: specs.NetworkNamespace, Path: cfg.NetNS}),
			oci.WithHostname(cfg.Hostname))
	}
	if cfg.HostPID {
		opts = append(opts, oci.WithHostNamespace(specs.PIDNamespace))
	}
	if cfg.HostIPC {
		opts = append(opts, oci.WithHostNamespace(specs.IPCNamespace))
	}
	opts = append(opts, withSysctls(cfg))
	if cfg.Seccomp.Type == runtime.SeccompRuntimeDefault {
		opts = append(opts, seccomp.WithDefaultProfile())
	}
	return opts
}

func pauseMounts(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
	s.Mounts = []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "strictatime", "mode=755", "size=64k"}},
	}
	return nil
}

// withSysctls sets the pod's kernel parameters. As Kubernetes' runtimes do, it
// lets containers open low ports and ping without a capability.
func withSysctls(cfg runtime.SandboxConfig) oci.SpecOpts {
	return func(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
		set := map[string]string{}
		if cfg.NetNS != "" {
			set["net.ipv4.ip_unprivileged_port_start"] = "0"
			set["net.ipv4.ping_group_range"] = "0 2147483647"
			if !cfg.IDs.IsHost() {
				set["net.ipv4.ping_group_range"] = fmt.Sprintf("0 %d", cfg.IDs.Length-1)
			}
		}
		for k, v := range cfg.Sysctls {
			set[k] = v
		}
		s.Linux.Sysctl = set
		return nil
	}
}

// StopSandbox implements runtime.Sandboxes.
func (r *Runtime) StopSandbox(ctx context.Context, id string) error {
	ctx = r.with(ctx)
	members, err := r.members(ctx, id)
	if err != nil {
		return fmt.Errorf("stop sandbox %s: %w", id, err)
	}
	var errs []error
	for _, c := range members {
		errs = append(errs, r.StopContainer(ctx, c, 0))
	}
	errs = append(errs, r.StopContainer(ctx, id, 0))
	return errors.Join(errs...)
}

// RemoveSandbox implements runtime.Sandboxes.
func (r *Runtime) RemoveSandbox(ctx context.Context, id string) error {
	ctx = r.with(ctx)
	rec, _, err := r.load(ctx, id)
	if err != nil && !errors.Is(err, runtime.ErrNotFound) {
		return fmt.Errorf("remove sandbox %s: %w", id, err)
	}
	members, err := r.members(ctx, id)
	if err != nil {
		return fmt.Errorf("remove sandbox %s: %w", id, err)
	}
	for _, c := range members {
		if err := r.RemoveContainer(ctx, c); err != nil {
			return err
		}
	}
	if err := r.RemoveContainer(ctx, id); err != nil {
		return err
	}
	if err := r.unmountImages(ctx, id); err != nil {
		return fmt.Errorf("remove sandbox %s: %w", id, err)
	}
	if err := unmountShm(r.shm(id)); err != nil {
		return err
	}
	removeCgroup(rec.CgroupParent)
	return nil
}

// members lists the containers of a sandbox, without itself.
func (r *Runtime) members(ctx context.Context, sandbox string) ([]string, error) {
	list, err := r.client.ContainerService().List(ctx, "labels.\""+labelKind+"\"==container")
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, c := range list {
		if rec, ok := readRecord(c); ok && rec.Sandbox == sandbox {
			ids = append(ids, c.ID)
		}
	}
	return ids, nil
}

// mountShm makes the shared memory of a pod.
func mountShm(dir string) error {
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return fmt.Errorf("make shared memory: %w", err)
	}
	if err := unix.Mount("shm", dir, "tmpfs", unix.MS_NOEXEC|unix.MS_NOSUID|unix.MS_NODEV, "mode=1777,size=64m"); err != nil {
		return fmt.Errorf("make shared memory: mount %s: %w", dir, err)
	}
	return nil
}

func unmountShm(dir string) error {
	err := unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove shared memory: unmount %s: %w", dir, err)
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove shared memory: %w", err)
	}
	return nil
}
