package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/nodeagent/pod"
	"github.com/berth-dev/berth/nodeagent/podspec"
	"github.com/berth-dev/berth/nodeagent/runtime"
)

// Mounts gives what of its pod's volumes a container sees, and its devices. The
// Image of a mount is the reference of its volume, not an id. recursive says
// whether the runtime can make mounts read-only recursively.
func (v *Volumes) Mounts(p *v1.Pod, c *v1.Container, env map[string]string, recursive bool) ([]runtime.Mount, []runtime.Device, error) {
	var out []runtime.Mount
	shm := false
	for i := range c.VolumeMounts {
		m := &c.VolumeMounts[i]
		shm = shm || filepath.Clean(m.MountPath) == "/dev/shm"
		got, err := v.one(p, c, i, m, env)
		if err != nil {
			return nil, nil, fmt.Errorf("volumeMount %q: %w", m.Name, err)
		}
		if got.RecursiveReadOnly, err = pod.RecursiveReadOnly(p, m, recursive); err != nil {
			return nil, nil, err
		}
		out = append(out, got)
	}
	if dir := filepath.Join(v.podDir(string(p.UID)), "shm"); !p.Spec.HostIPC && !shm {
		out = append(out, runtime.Mount{HostPath: dir, ContainerPath: "/dev/shm"})
	}
	var devices []runtime.Device
	for _, d := range c.VolumeDevices {
		at, ok := v.at(p, d.Name)
		if !ok || !at.Block {
			return nil, nil, fmt.Errorf("volumeDevice %q: it is not a claim for a block volume", d.Name)
		}
		permissions := "rwm"
		if at.ReadOnly {
			permissions = "r"
		}
		devices = append(devices, runtime.Device{HostPath: at.Path, ContainerPath: d.DevicePath, Permissions: permissions})
	}
	return out, devices, nil
}

// at says where a volume lies.
func (v *Volumes) at(p *v1.Pod, name string) (place, bool) {
	v.mu.Lock()
	at, ok := v.load(string(p.UID))[name]
	v.mu.Unlock()
	if ok {
		return at, true
	}
	for i := range p.Spec.Volumes {
		if vol := &p.Spec.Volumes[i]; vol.Name == name {
			elsewhere := vol.HostPath != nil || vol.PersistentVolumeClaim != nil || vol.Ephemeral != nil
			return place{Path: v.dir(string(p.UID), name)}, !elsewhere
		}
	}
	return place{}, false
}

func (v *Volumes) one(p *v1.Pod, c *v1.Container, i int, m *v1.VolumeMount, env map[string]string) (runtime.Mount, error) {
	img := ImageOf(p, m.Name)
	at, ok := v.at(p, m.Name)
	if !ok {
		return runtime.Mount{}, errors.New("the volume is not set up")
	}
	out := runtime.Mount{HostPath: at.Path, ContainerPath: m.MountPath, ReadOnly: m.ReadOnly || at.ReadOnly || fromAPI(p, m.Name)}
	if img != nil {
		out.Image, out.HostPath, out.ReadOnly = img.Reference, "", true
	}
	if !filepath.IsAbs(out.ContainerPath) {
		out.ContainerPath = "/" + out.ContainerPath
	}
	if m.MountPropagation != nil {
		switch *m.MountPropagation {
		case v1.MountPropagationHostToContainer:
			out.Propagation = "rslave"
		case v1.MountPropagationBidirectional:
			out.Propagation = "rshared"
		}
	}
	sub := m.SubPath
	if m.SubPathExpr != "" {
		var err error
		if sub, err = expandPath(m.SubPathExpr, env); err != nil {
			return out, err
		}
	}
	if sub == "" || img != nil {
		out.SubPath = sub
		return out, nil
	}
	target := filepath.Join(v.podDir(string(p.UID)), "subpaths", c.Name, strconv.Itoa(i))
	if err := v.bindSub(at.Path, sub, target); err != nil {
		return out, fmt.Errorf("subPath %q: %w", sub, err)
	}
	out.HostPath = target
	return out, nil
}

// fromAPI says whether a volume's files come from the API: what a container wrote
// there would be replaced, so it may not.
func fromAPI(p *v1.Pod, name string) bool {
	for i := range p.Spec.Volumes {
		if vol := &p.Spec.Volumes[i]; vol.Name == name {
			return vol.ConfigMap != nil || vol.Secret != nil || vol.DownwardAPI != nil || vol.Projected != nil
		}
	}
	return false
}

// ImageOf is the image of a pod's image volume; nil where the name is of another
// volume, or of none.
func ImageOf(p *v1.Pod, name string) *v1.ImageVolumeSource {
	for i := range p.Spec.Volumes {
		if vol := &p.Spec.Volumes[i]; vol.Name == name {
			return vol.Image
		}
	}
	return nil
}

func expandPath(expr string, env map[string]string) (string, error) {
	var unknown []string
	out := podspec.Expand(expr, func(name string) (string, bool) {
		value, ok := env[name]
		if !ok {
			unknown = append(unknown, name)
		}
		return value, ok
	})
	if len(unknown) > 0 {
		return "", fmt.Errorf("subPathExpr names unknown variables: %s", strings.Join(unknown, ", "))
	}
	return out, nil
}

// bindSub mounts a part of a volume at target. It holds the part open while it
// mounts, so that nothing can be put in its place.
func (v *Volumes) bindSub(volume, sub, target string) error {
	f, err := openBelow(volume, sub)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := v.mount.UnmountBelow(target); err != nil {
		return err
	}
	return v.mount.Bind(f, target)
}

// openBelow opens sub below root, making folders that are missing. Links may
// lead anywhere within root, never out of it.
func openBelow(root, sub string) (*os.File, error) {
	if !filepath.IsLocal(sub) {
		return nil, errors.New("it must be a relative path that does not lead out of the volume")
	}
	dir, err := os.Open(root)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if info, err := dir.Stat(); err == nil && !info.IsDir() {
		return nil, errors.New("the volume is a file: it has no parts")
	}
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS}
	path := ""
	for part := range strings.SplitSeq(filepath.Clean(sub), "/") {
		parent := path
		path = filepath.Join(path, part)
		fd, err := unix.Openat2(int(dir.Fd()), path, how)
		if errors.Is(err, fs.ErrNotExist) {
			if err := mkdirBelow(dir, parent, part); err != nil {
				return nil, err
			}
			fd, err = unix.Openat2(int(dir.Fd()), path, how)
		}
		if err != nil {
			return nil, fmt.Errorf("%s leads out of the volume, or can not be opened: %w", path, err)
		}
		if path == filepath.Clean(sub) {
			return os.NewFile(uintptr(fd), filepath.Join(root, path)), nil
		}
		unix.Close(fd)
	}
	return nil, errors.New("it is empty")
}

func mkdirBelow(root *os.File, parent, name string) error {
	if parent == "" {
		parent = "."
	}
	fd, err := unix.Openat2(int(root.Fd()), parent, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	err = unix.Mkdirat(fd, name, 0o750)
	if errors.Is(err, fs.ErrExist) {
		return nil // a container made it meanwhile, and its mode is the container's to say
	}
	if err != nil {
		return err
	}
	// A container may have put a link in its place since.
	made, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(made)
	// As open as the folder that it lies in: the container's user must reach it.
	return unix.Fchmod(made, st.Mode&0o7777)
}
