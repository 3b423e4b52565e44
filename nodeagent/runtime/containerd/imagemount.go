package containerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/image-spec/identity"
	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/nodeagent/runtime"
)

// Images that containers mount are read-only snapshots of their sandbox, each
// mounted once in a folder of the sandbox and bound into containers from there.

// labelRoot keeps a snapshot from containerd's garbage collector.
const labelRoot = "containerd.io/gc.root"

// errImageMount is what Kubernetes' runtimes begin such an error with.
var errImageMount = errors.New("ImageVolumeMountFailed")

// imageMounts gives the mounts with those of images turned into ones of folders.
func (r *Runtime) imageMounts(ctx context.Context, sandbox record, mounts []runtime.Mount) ([]runtime.Mount, error) {
	out := make([]runtime.Mount, 0, len(mounts))
	for _, m := range mounts {
		if m.Image == "" {
			out = append(out, m)
			continue
		}
		if !m.ReadOnly {
			return nil, fmt.Errorf("%w: image %s at %s: images are mounted read-only", errImageMount, m.Image, m.ContainerPath)
		}
		dir, err := r.mountImage(ctx, sandbox, m.Image)
		mapped := false
		if err == nil {
			mapped = isOverlay(dir)
			dir, err = folderIn(dir, m.SubPath)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: image %s at %s: %w", errImageMount, m.Image, m.ContainerPath, err)
		}
		m.HostPath = dir
		if !mapped { // a single layer is bound as it is: its ids are mapped like those of a folder
			m.Image = ""
		}
		out = append(out, m)
	}
	return out, nil
}

func isOverlay(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && int64(st.Type) == unix.OVERLAYFS_SUPER_MAGIC
}

func mountedImages(mounts []runtime.Mount) []string {
	var ids []string
	for _, m := range mounts {
		if m.Image != "" {
			ids = append(ids, m.Image)
		}
	}
	return ids
}

// snapshotOf names the snapshot of an image in a sandbox.
func snapshotOf(sandbox, image string) string {
	return sandbox + "-" + strings.TrimPrefix(image, "sha256:")
}

// mountImage shows an image's files in a folder of the sandbox, once.
func (r *Runtime) mountImage(ctx context.Context, parent record, image string) (string, error) {
	sandbox := parent.Sandbox
	defer r.mounting.Lock(sandbox)()
	dir := filepath.Join(r.imageDir(sandbox), strings.TrimPrefix(image, "sha256:"))
	if is, err := isMountPoint(dir); err != nil || is {
		return dir, err
	}
	img, err := r.client.GetImage(ctx, image)
	if errdefs.IsNotFound(err) {
		return "", runtime.ErrNotFound
	}
	if err != nil {
		return "", err
	}
	if err := r.unpack(ctx, img); err != nil {
		return "", err
	}
	layers, err := img.RootFS(ctx)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o711); err != nil { // first: by it the snapshot is found again
		return "", err
	}
	key, service := snapshotOf(sandbox, image), r.client.SnapshotService(r.snapshotter)
	labels := map[string]string{labelRoot: stamp(time.Now())}
	opts := append(snapshotIDs(parent.IDs), snapshots.WithLabels(labels))
	mounts, err := service.View(ctx, key, identity.ChainID(layers).String(), opts...)
	if errdefs.IsAlreadyExists(err) { // the agent was killed before it mounted it
		mounts, err = service.Mounts(ctx, key)
	}
	if err != nil {
		return "", err
	}
	if err := mount.All(mounts, dir); err != nil {
		return "", errors.Join(err, mount.UnmountAll(dir, 0))
	}
	return dir, nil
}

// isMountPoint says whether something is mounted at a folder, which may be
// absent.
func isMountPoint(dir string) (bool, error) {
	real, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	info, err := mount.Lookup(real)
	return err == nil && info.Mountpoint == real, err
}

// folderIn gives a folder of an image. No link leads out of it, and none can
// change: nobody writes there.
func folderIn(dir, sub string) (string, error) {
	if sub == "" {
		return dir, nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	f, err := root.OpenFile(sub, os.O_RDONLY|unix.O_DIRECTORY, 0) // which opens no pipe, and waits for nobody
	if errors.Is(err, unix.ENOTDIR) {
		return "", fmt.Errorf("subPath %q: only directory subpath is supported", sub)
	}
	if err != nil {
		return "", fmt.Errorf("subPath %q: %w", sub, errors.Unwrap(err))
	}
	f.Close()
	return filepath.Join(dir, sub), nil
}

// unmountImages takes down what mountImage put up for a sandbox.
func (r *Runtime) unmountImages(ctx context.Context, sandbox string) error {
	defer r.mounting.Lock(sandbox)()
	dir, service := r.imageDir(sandbox), r.client.SnapshotService(r.snapshotter)
	for _, image := range entries(dir) {
		at := filepath.Join(dir, image)
		if err := mount.UnmountAll(at, 0); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("unmount image %s: %w", image, err)
		}
		if err := service.Remove(ctx, snapshotOf(sandbox, image)); err != nil && !errdefs.IsNotFound(err) {
			return fmt.Errorf("remove the snapshot of image %s: %w", image, err)
		}
		if err := os.Remove(at); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove the folder of image %s: %w", image, err)
		}
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the folder of images: %w", err)
	}
	return nil
}
