package containerd

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/oci"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/nodeagent/runtime"
)

// defaultPath is used where neither pod nor image says one.
const defaultPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// containerSpec turns a container's configuration into what runc runs. pid is
// the pause process; target the one whose processes are seen.
func (r *Runtime) containerSpec(cfg runtime.ContainerConfig, sandbox, rec record, pid, target uint32) []oci.SpecOpts {
	opts := []oci.SpecOpts{
		oci.WithProcessArgs(cfg.Args...),
		withEnv(cfg, sandbox),
		oci.WithProcessCwd(orRoot(cfg.WorkDir)),
		oci.WithAnnotations(map[string]string{shimGroup: sandbox.Sandbox, shimRole: "container"}),
		oci.WithCgroup(rec.Cgroup),
		withNamespaces(cfg, sandbox, pid, target),
		withResources(cfg.Resources),
		withOOMScore(cfg.Resources.OOMScoreAdj),
		withFileLimit,
		withUser(cfg.Security),
	}
	if cfg.TTY {
		opts = append(opts, oci.WithTTY)
	}
	if cfg.Security.ReadOnlyRootFS {
		opts = append(opts, oci.WithRootFSReadonly())
	}
	opts = append(opts, r.withMounts(cfg, sandbox))
	for _, d := range cfg.Devices {
		opts = append(opts, oci.WithDevices(d.HostPath, d.ContainerPath, d.Permissions))
	}
	return append(opts, security(cfg.Security)...)
}

func orRoot(dir string) string {
	if dir == "" {
		return "/"
	}
	return dir
}

// withEnv sets exactly the variables asked for, the last of a name, and those
// that every process expects.
func withEnv(cfg runtime.ContainerConfig, sandbox record) oci.SpecOpts {
	return func(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
		name := sandbox.Hostname
		if name == "" { // the pod is on the machine's network
			name, _ = os.Hostname()
		}
		env := []string{defaultPath, "HOSTNAME=" + name}
		if cfg.TTY {
			env = append(env, "TERM=xterm")
		}
		for _, v := range cfg.Env {
			if strings.ContainsRune(v.Name+v.Value, 0) {
				return fmt.Errorf("environment variable %s contains a NUL byte", v.Name)
			}
			env = slices.DeleteFunc(env, func(had string) bool { return strings.HasPrefix(had, v.Name+"=") })
			env = append(env, v.Name+"="+v.Value)
		}
		s.Process.Env = env
		return nil
	}
}

// withNamespaces joins the sandbox's.
func withNamespaces(cfg runtime.ContainerConfig, sandbox record, pid, target uint32) oci.SpecOpts {
	return func(ctx context.Context, c oci.Client, info *containers.Container, s *oci.Spec) error {
		join := func(t specs.LinuxNamespaceType, name string, pid uint32) oci.SpecOpts {
			return oci.WithLinuxNamespace(specs.LinuxNamespace{Type: t, Path: fmt.Sprintf("/proc/%d/ns/%s", pid, name)})
		}
		opts := []oci.SpecOpts{
			withUserNamespace(sandbox.IDs, fmt.Sprintf("/proc/%d/ns/user", pid)),
			join(specs.NetworkNamespace, "net", pid),
			join(specs.IPCNamespace, "ipc", pid),
			join(specs.UTSNamespace, "uts", pid),
		}
		switch {
		case sandbox.HostPID:
			opts = append(opts, oci.WithHostNamespace(specs.PIDNamespace))
		case sandbox.ShareProcesses || cfg.TargetID != "":
			opts = append(opts, join(specs.PIDNamespace, "pid", target))
		}
		return oci.Compose(opts...)(ctx, c, info, s)
	}
}

// withMounts replaces the defaults of the same place by the pod's mounts.
func (r *Runtime) withMounts(cfg runtime.ContainerConfig, sandbox record) oci.SpecOpts {
	return func(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
		shm := r.shm(sandbox.Sandbox)
		if sandbox.HostIPC {
			shm = "/dev/shm"
		}
		mode := "ro"
		if cfg.Security.Privileged {
			mode = "rw"
		}
		defaults := slices.DeleteFunc(s.Mounts, func(m specs.Mount) bool {
			return m.Destination == "/run" || m.Destination == "/dev/shm" // images may have files in /run
		})
		defaults = append(defaults,
			specs.Mount{Destination: "/sys/fs/cgroup", Type: "cgroup", Source: "cgroup", Options: []string{"nosuid", "noexec", "nodev", "relatime", mode}},
			specs.Mount{Destination: "/dev/shm", Type: "bind", Source: shm, Options: []string{"rbind", "rw", "nosuid", "noexec", "nodev"}},
		)
		taken := map[string]bool{}
		for _, m := range cfg.Mounts {
			taken[m.ContainerPath] = true
		}
		s.Mounts = slices.DeleteFunc(defaults, func(m specs.Mount) bool { return taken[m.Destination] })
		for _, m := range cfg.Mounts {
			mount, rootPropagation := bind(m)
			if !sandbox.IDs.IsHost() && m.Image == "" { // an image's layers are mapped already
				mount.UIDMappings, mount.GIDMappings = mappings(sandbox.IDs), mappings(sandbox.IDs)
			}
			s.Mounts = append(s.Mounts, mount)
			if rootPropagation == "rshared" || s.Linux.RootfsPropagation == "" {
				s.Linux.RootfsPropagation = rootPropagation
			}
		}
		return nil
	}
}

// bind gives a mount and the propagation that the root needs for it.
func bind(m runtime.Mount) (specs.Mount, string) {
	options, root := []string{"rbind"}, ""
	switch m.Propagation {
	case "rshared":
		options, root = append(options, "rshared"), "rshared"
	case "rslave":
		options, root = append(options, "rslave"), "rslave"
	default:
		options = append(options, "rprivate")
	}
	switch {
	case m.RecursiveReadOnly:
		options = append(options, "rro")
	case m.ReadOnly:
		options = append(options, "ro")
	default:
		options = append(options, "rw")
	}
	return specs.Mount{Destination: m.ContainerPath, Type: "bind", Source: m.HostPath, Options: options}, root
}

// withFileLimit gives as many open files as the agent itself may have: a limit
// above that is refused without CAP_SYS_RESOURCE.
func withFileLimit(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
	const most = 1 << 20
	var own unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &own); err != nil {
		return fmt.Errorf("read the limit of open files: %w", err)
	}
	limit := min(own.Max, most)
	s.Process.Rlimits = []specs.POSIXRlimit{{Type: "RLIMIT_NOFILE", Hard: limit, Soft: limit}}
	return nil
}
