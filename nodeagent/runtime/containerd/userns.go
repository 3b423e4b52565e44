package containerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	client "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/pkg/oci"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/nodeagent/userns"
)

// Pods with a user namespace: the network's namespace is made within it, by
// package network. The pause process joins it by that, containers by the pause
// process.

func mappings(ids userns.Range) []specs.LinuxIDMapping {
	return []specs.LinuxIDMapping{{ContainerID: 0, HostID: ids.First, Size: ids.Length}}
}

// withUserNamespace puts a process into the user namespace at path.
func withUserNamespace(ids userns.Range, path string) oci.SpecOpts {
	return func(ctx context.Context, c oci.Client, info *containers.Container, s *oci.Spec) error {
		if ids.IsHost() {
			return nil
		}
		return oci.Compose(
			oci.WithUserNamespace(mappings(ids), mappings(ids)),
			oci.WithLinuxNamespace(specs.LinuxNamespace{Type: specs.UserNamespace, Path: path}),
		)(ctx, c, info, s)
	}
}

// snapshotIDs shows a snapshot's files with the ids of a user namespace.
func snapshotIDs(ids userns.Range) []snapshots.Opt {
	if ids.IsHost() {
		return nil
	}
	return []snapshots.Opt{client.WithUserNSRemapperLabels(mappings(ids), mappings(ids))}
}

// taskIDs gives a process's streams to its user on the machine.
func (r *Runtime) taskIDs(ctx context.Context, c client.Container, ids userns.Range) ([]client.NewTaskOpts, error) {
	if ids.IsHost() {
		return nil, nil
	}
	spec, err := c.Spec(ctx)
	if err != nil {
		return nil, err
	}
	user := spec.Process.User
	if user.UID >= ids.Length || user.GID >= ids.Length {
		return nil, fmt.Errorf("user %d and group %d are not below %d, as they must be in a user namespace", user.UID, user.GID, ids.Length)
	}
	return []client.NewTaskOpts{client.WithUIDOwner(ids.First + user.UID), client.WithGIDOwner(ids.First + user.GID)}, nil
}

// ownerOf shows the user namespace that owns a network namespace in a file,
// until release is called.
func (r *Runtime) ownerOf(netns, sandbox string) (path string, release func(), err error) {
	f, err := os.Open(netns)
	if err != nil {
		return "", nil, err
	}
	defer f.Close()
	fd, err := unix.IoctlRetInt(int(f.Fd()), unix.NS_GET_USERNS)
	if err != nil {
		return "", nil, fmt.Errorf("find the user namespace of %s: %w", netns, err)
	}
	defer unix.Close(fd)
	path = filepath.Join(r.cfg.State, "userns", sandbox)
	if err := os.MkdirAll(filepath.Dir(path), 0o711); err != nil {
		return "", nil, err
	}
	if err := os.WriteFile(path, nil, 0o444); err != nil {
		return "", nil, err
	}
	if err := unix.Mount(fmt.Sprintf("/proc/self/fd/%d", fd), path, "none", unix.MS_BIND, ""); err != nil {
		return "", nil, errors.Join(fmt.Errorf("mount %s: %w", path, err), os.Remove(path))
	}
	return path, func() { _ = releaseNS(path) }, nil
}

// releaseNS takes down what ownerOf put up; what is absent is down.
func releaseNS(path string) error {
	err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount %s: %w", path, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
