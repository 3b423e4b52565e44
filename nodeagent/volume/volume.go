package volume

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	authv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/ephemeral"

	"github.com/berth-dev/berth/nodeagent/keyed"
	"github.com/berth-dev/berth/nodeagent/podspec"
)

// Sources gives what volumes refer to.
type Sources interface {
	podspec.Objects
	Token(ctx context.Context, namespace, account string, req *authv1.TokenRequest) (*authv1.TokenRequest, error)
	Claim(ctx context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error)
	Volume(ctx context.Context, name string) (*v1.PersistentVolume, error)
}

// Volumes makes volumes below a folder.
type Volumes struct {
	root   string
	src    Sources
	mount  Mounter
	labels func() map[string]string

	// changing holds one pod's volumes while they are made, refreshed or removed.
	changing keyed.Locks

	mu     sync.Mutex
	tokens map[tokenKey]token
	// places of volumes that lie elsewhere (hostPath, claims), by pod and volume.
	places map[string]map[string]place
}

// place is where a volume lies.
type place struct {
	Path     string `json:"path"`
	ReadOnly bool   `json:"readOnly,omitempty"`
	Block    bool   `json:"block,omitempty"`
}

// New keeps volumes in root/UID. labels gives the node's, by which persistent
// volumes name the nodes that have them.
func New(root string, src Sources, mount Mounter, labels func() map[string]string) *Volumes {
	return &Volumes{root: root, src: src, mount: mount, labels: labels, tokens: map[tokenKey]token{}, places: map[string]map[string]place{}}
}

func (v *Volumes) podDir(uid string) string { return filepath.Join(v.root, uid) }

func (v *Volumes) dir(uid, volume string) string {
	return filepath.Join(v.podDir(uid), "volumes", volume)
}

// shmSize is the shared memory that each pod gets.
const shmSize = 64 << 20

// SetUp makes all volumes of a pod; what is there already stays.
func (v *Volumes) SetUp(ctx context.Context, p *v1.Pod, facts podspec.Facts) error {
	defer v.changing.Lock(string(p.UID))()
	if !p.Spec.HostIPC {
		shm := filepath.Join(v.podDir(string(p.UID)), "shm")
		if err := v.mount.Tmpfs(shm, shmSize, 0o1777); err != nil {
			return err
		}
	}
	for i := range p.Spec.Volumes {
		vol := &p.Spec.Volumes[i]
		if err := v.setUp(ctx, p, vol, facts); err != nil {
			return fmt.Errorf("MountVolume.SetUp failed for volume %q: %w", vol.Name, err)
		}
	}
	return nil
}

// Refresh brings what comes from the API up to date in a running pod; of one whose
// volumes are gone nothing comes back.
func (v *Volumes) Refresh(ctx context.Context, p *v1.Pod, facts podspec.Facts) error {
	var errs []error
	for i := range p.Spec.Volumes {
		vol := &p.Spec.Volumes[i]
		if vol.ConfigMap == nil && vol.Secret == nil && vol.DownwardAPI == nil && vol.Projected == nil {
			continue
		}
		files, err := v.content(ctx, p, vol, facts)
		if err == nil {
			err = v.renew(p, vol, files)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("volume %q: %w", vol.Name, err))
		}
	}
	return errors.Join(errs...)
}

func (v *Volumes) renew(p *v1.Pod, vol *v1.Volume, files map[string]file) error {
	uid := string(p.UID)
	defer v.changing.Lock(uid)()
	if _, err := os.Stat(v.podDir(uid)); err != nil { // it was torn down meanwhile
		v.forget(uid)
		return nil
	}
	return v.fill(p, vol, files)
}

func (v *Volumes) setUp(ctx context.Context, p *v1.Pod, vol *v1.Volume, facts podspec.Facts) error {
	uid := string(p.UID)
	dir := v.dir(uid, vol.Name)
	switch {
	case vol.Image != nil:
		return nil // the runtime mounts it with the container that wants it
	case vol.EmptyDir != nil:
		return v.emptyDir(p, vol.EmptyDir, dir, facts.Allocatable.Memory().Value())
	case vol.HostPath != nil:
		if err := hostPath(vol.HostPath); err != nil {
			return err
		}
		return v.put(uid, vol.Name, place{Path: vol.HostPath.Path})
	case vol.PersistentVolumeClaim != nil:
		return v.claim(ctx, p, vol.Name, vol.PersistentVolumeClaim.ClaimName, vol.PersistentVolumeClaim.ReadOnly)
	case vol.Ephemeral != nil:
		return v.claim(ctx, p, vol.Name, ephemeral.VolumeClaimName(p, vol), false)
	case vol.ConfigMap != nil, vol.Secret != nil, vol.DownwardAPI != nil, vol.Projected != nil:
		files, err := v.content(ctx, p, vol, facts)
		if err != nil {
			return err
		}
		return v.fill(p, vol, files)
	}
	return errors.New("this kind of volume is not supported; use emptyDir, hostPath, image, configMap, secret, downwardAPI, projected, or a claim bound to a local or hostPath volume")
}

// fill writes the files of a volume that comes from the API.
func (v *Volumes) fill(p *v1.Pod, vol *v1.Volume, files map[string]file) error {
	dir := v.dir(string(p.UID), vol.Name)
	if vol.Secret != nil || vol.Projected != nil { // secrets stay off the disk
		if err := v.mount.Tmpfs(dir, 0, 0o755); err != nil {
			return err
		}
	} else if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return replace(dir, files, fsGroup(p), time.Now())
}

// put notes where a volume lies, in memory and beside the pod's folders, so that
// it is known after a restart of the agent too.
func (v *Volumes) put(uid, volume string, at place) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := v.load(uid)
	if all[volume] == at {
		return nil
	}
	all[volume] = at
	data, err := json.Marshal(all)
	if err != nil {
		return err
	}
	name := filepath.Join(v.podDir(uid), "places.json")
	if err := os.MkdirAll(v.podDir(uid), 0o750); err != nil {
		return err
	}
	if err := os.WriteFile(name+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// load gives a pod's places; v.mu is held. A file that can not be read is
// written anew when the volumes are set up.
func (v *Volumes) load(uid string) map[string]place {
	if all := v.places[uid]; all != nil {
		return all
	}
	all := map[string]place{}
	if data, err := os.ReadFile(filepath.Join(v.podDir(uid), "places.json")); err == nil {
		_ = json.Unmarshal(data, &all)
	}
	v.places[uid] = all
	return all
}

func fsGroup(p *v1.Pod) *int64 {
	if p.Spec.SecurityContext == nil {
		return nil
	}
	return p.Spec.SecurityContext.FSGroup
}

// emptyDir makes a folder; node is the memory that the node has for pods.
func (v *Volumes) emptyDir(p *v1.Pod, e *v1.EmptyDirVolumeSource, dir string, node int64) error {
	switch {
	case podspec.IsHugepages(e.Medium):
		size, err := podspec.MediumPageSize(p, e.Medium)
		if err != nil {
			return err
		}
		if err := v.mount.Hugepages(dir, size); err != nil {
			return err
		}
	case e.Medium == v1.StorageMediumMemory:
		if err := v.mount.Tmpfs(dir, memorySize(p, e, node), 0o777); err != nil {
			return err
		}
	case e.Medium == v1.StorageMediumDefault:
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return err
		}
		if err := os.Chmod(dir, 0o777); err != nil {
			return err
		}
	default:
		return fmt.Errorf("emptyDir of medium %q is not supported", e.Medium)
	}
	return ownByGroup(dir, fsGroup(p), v1.FSGroupChangeAlways)
}

// memorySize is the smallest of the volume's limit, the pod's, and what the node has for
// pods; 0 is the kernel's default of half the memory.
func memorySize(p *v1.Pod, e *v1.EmptyDirVolumeSource, node int64) int64 {
	size := node
	limits := []int64{podspec.PodLimits(p).MemoryLimit}
	if e.SizeLimit != nil {
		limits = append(limits, e.SizeLimit.Value())
	}
	for _, limit := range limits {
		if limit > 0 && (size == 0 || limit < size) {
			size = limit
		}
	}
	return size
}

// hostPath checks, or makes, what a hostPath volume names.
func hostPath(h *v1.HostPathVolumeSource) error {
	kind := v1.HostPathUnset
	if h.Type != nil {
		kind = *h.Type
	}
	if slices.Contains(strings.Split(h.Path, "/"), "..") {
		return fmt.Errorf("hostPath %s: must not contain '..'", h.Path)
	}
	switch kind {
	case v1.HostPathUnset: // whatever is there; else a folder, as containerd has it
		if _, err := os.Stat(h.Path); errors.Is(err, fs.ErrNotExist) {
			return os.MkdirAll(h.Path, 0o755)
		}
		return nil
	case v1.HostPathDirectoryOrCreate:
		if err := os.MkdirAll(h.Path, 0o755); err != nil {
			return err
		}
	case v1.HostPathFileOrCreate:
		f, err := os.OpenFile(h.Path, os.O_CREATE|os.O_RDONLY, 0o644)
		if err != nil {
			return err
		}
		f.Close()
	}
	info, err := os.Stat(h.Path)
	if err != nil {
		return fmt.Errorf("hostPath type check failed: %w", err)
	}
	if !isOf(kind, info.Mode()) {
		return fmt.Errorf("hostPath type check failed: %s is not a %s", h.Path, kind)
	}
	return nil
}

// isOf tells whether a file is what a hostPath volume says that it is.
func isOf(kind v1.HostPathType, mode os.FileMode) bool {
	switch kind {
	case v1.HostPathDirectory, v1.HostPathDirectoryOrCreate:
		return mode.IsDir()
	case v1.HostPathFile, v1.HostPathFileOrCreate:
		return mode.IsRegular()
	case v1.HostPathSocket:
		return mode&os.ModeSocket != 0
	case v1.HostPathCharDev:
		return mode&os.ModeCharDevice != 0
	case v1.HostPathBlockDev:
		return mode&os.ModeDevice != 0 && mode&os.ModeCharDevice == 0
	}
	return false
}

// TearDown unmounts and removes all that there is of a pod.
func (v *Volumes) TearDown(uid string) error {
	if uid == "." || !filepath.IsLocal(uid) || filepath.Base(uid) != uid {
		return fmt.Errorf("%q is no pod's UID", uid)
	}
	defer v.changing.Lock(uid)()
	v.forget(uid)
	dir := v.podDir(uid)
	if err := v.mount.UnmountBelow(dir); err != nil {
		return fmt.Errorf("unmount volumes: %w", err)
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove volumes: %w", err)
	}
	return nil
}

// forget drops what is remembered of a pod.
func (v *Volumes) forget(uid string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.places, uid)
	for k := range v.tokens {
		if k.uid == uid {
			delete(v.tokens, k)
		}
	}
}

// Pods lists the UIDs for which there is a folder.
func (v *Volumes) Pods() ([]string, error) {
	entries, err := os.ReadDir(v.root)
	if os.IsNotExist(err) {
		return nil, nil
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out, err
}

// Size measures a volume's files on disk, and stops counting above limit.
func (v *Volumes) Size(uid, volume string, limit int64) (int64, error) {
	var sum int64
	err := filepath.WalkDir(v.dir(uid, volume), func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // it went away meanwhile
		}
		if info, err := d.Info(); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				sum += st.Blocks * 512
			}
		}
		if sum > limit {
			return fs.SkipAll
		}
		return nil
	})
	return sum, err
}

// OnDisk counts the bytes and the files of a pod's emptyDirs that lie on the
// disk.
func (v *Volumes) OnDisk(p *v1.Pod) (bytes, files int64) {
	for i := range p.Spec.Volumes {
		vol := &p.Spec.Volumes[i]
		if vol.EmptyDir == nil || vol.EmptyDir.Medium != v1.StorageMediumDefault {
			continue
		}
		b, n := SizeOf(v.dir(string(p.UID), vol.Name))
		bytes, files = bytes+b, files+n
	}
	return bytes, files
}

// SizeOf counts the bytes and the files at and below a folder.
func SizeOf(dir string) (bytes, files int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // it went away meanwhile
		}
		files++
		if info, err := d.Info(); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				bytes += st.Blocks * 512
			}
		}
		return nil
	})
	return bytes, files
}
