package volume

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Mounter does what needs privileges.
type Mounter interface {
	// Tmpfs mounts memory at a folder that it makes, unless it is there; size 0
	// is the kernel's default.
	Tmpfs(dir string, size int64, mode fs.FileMode) error
	// Hugepages mounts a filesystem of huge pages of a size at a folder that it
	// makes, unless it is there.
	Hugepages(dir string, size int64) error
	// Bind shows what the open file is at target, which it makes.
	Bind(f *os.File, target string) error
	// UnmountBelow unmounts all at and below dir, deepest first, and fails if
	// something stays.
	UnmountBelow(dir string) error
}

// Kernel mounts for real.
type Kernel struct{}

// Tmpfs implements Mounter.
func (Kernel) Tmpfs(dir string, size int64, mode fs.FileMode) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err == nil && st.Type == unix.TMPFS_MAGIC && isMountPoint(dir) {
		return nil
	}
	options := fmt.Sprintf("mode=%o", mode.Perm())
	if mode > 0o777 {
		options = fmt.Sprintf("mode=%o", uint32(mode))
	}
	if size > 0 {
		options += fmt.Sprintf(",size=%d", size)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("mount tmpfs at %s: %w", dir, err)
	}
	return nil
}

// Hugepages implements Mounter.
func (Kernel) Hugepages(dir string, size int64) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err == nil && st.Type == unix.HUGETLBFS_MAGIC && isMountPoint(dir) {
		if st.Bsize != size {
			return fmt.Errorf("mounted dir %s pagesize '%d' and requested medium size '%d' differ", dir, st.Bsize, size)
		}
		return nil
	}
	options := fmt.Sprintf("pagesize=%d,mode=0777", size)
	if err := unix.Mount("nodev", dir, "hugetlbfs", 0, options); err != nil {
		return fmt.Errorf("mount hugetlbfs at %s with %s: %w", dir, options, err)
	}
	return nil
}

// isMountPoint says whether a folder is on another device than its parent.
func isMountPoint(dir string) bool {
	var here, up unix.Stat_t
	if unix.Stat(dir, &here) != nil || unix.Stat(filepath.Dir(dir), &up) != nil {
		return false
	}
	return here.Dev != up.Dev
}

// Bind implements Mounter.
func (Kernel) Bind(f *os.File, target string) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o750); err != nil {
		return err
	}
	if info.IsDir() {
		err = os.MkdirAll(target, 0o750)
	} else {
		var t *os.File
		if t, err = os.OpenFile(target, os.O_CREATE|os.O_RDONLY, 0o640); err == nil {
			t.Close()
		}
	}
	if err != nil {
		return err
	}
	source := fmt.Sprintf("/proc/self/fd/%d", f.Fd())
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil { // without what is mounted below, as kubelets do
		return fmt.Errorf("bind %s to %s: %w", f.Name(), target, err)
	}
	return nil
}

// UnmountBelow implements Mounter.
func (Kernel) UnmountBelow(dir string) error {
	for range 3 { // mounts may lie upon each other
		points, err := mountsBelow(dir)
		if err != nil || len(points) == 0 {
			return err
		}
		for _, p := range points {
			// What is bound here may share the machine's own mounts, which must stay.
			if err := unix.Mount("", p, "", unix.MS_PRIVATE, ""); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("make %s private: %w", p, err)
			}
		}
		for _, p := range points {
			err := unix.Unmount(p, unix.UMOUNT_NOFOLLOW)
			if errors.Is(err, unix.EBUSY) {
				err = unix.Unmount(p, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
			}
			if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("unmount %s: %w", p, err)
			}
		}
	}
	points, err := mountsBelow(dir)
	if err != nil {
		return err
	}
	if len(points) > 0 {
		return fmt.Errorf("%s stays mounted", points[0])
	}
	return nil
}

// mountsBelow lists the mount points at and below dir, deepest first.
func mountsBelow(dir string) ([]string, error) {
	dir, err := resolve(dir)
	if err != nil {
		return nil, err
	}
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []string
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			continue
		}
		at := unescape.Replace(fields[4])
		if at == dir || strings.HasPrefix(at, dir+"/") {
			out = append(out, at)
		}
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return out, lines.Err()
}

var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// resolve follows links of the part of a path that exists.
func resolve(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(abs)
	if errors.Is(err, fs.ErrNotExist) {
		up, err := resolve(filepath.Dir(abs))
		return filepath.Join(up, filepath.Base(abs)), err
	}
	return real, err
}

// Plain is for machines without privileges: memory is a folder, and what needs
// a bind mount is refused.
type Plain struct{}

// Tmpfs implements Mounter.
func (Plain) Tmpfs(dir string, _ int64, mode fs.FileMode) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.Chmod(dir, mode.Perm())
}

// Hugepages implements Mounter.
func (Plain) Hugepages(dir string, _ int64) error {
	return fmt.Errorf("%s: an emptyDir of huge pages needs root, to mount it", dir)
}

// Bind implements Mounter.
func (Plain) Bind(f *os.File, _ string) error {
	return fmt.Errorf("%s: a subPath needs root, to mount it safely", f.Name())
}

// UnmountBelow implements Mounter.
func (Plain) UnmountBelow(string) error { return nil }
