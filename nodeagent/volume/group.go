package volume

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"syscall"

	v1 "k8s.io/api/core/v1"
)

// ownByGroup gives a volume to fsGroup: group-owned, group-writable, and new
// files inherit the group. What it walks over another pod may change meanwhile: by
// no link does it leave the volume.
func ownByGroup(dir string, group *int64, policy v1.PodFSGroupChangePolicy) error {
	if group == nil || policy == v1.FSGroupChangeOnRootMismatch && owned(dir, *group) {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("fsGroup: %w", err)
	}
	defer root.Close()
	err = walkUp(root, ".", func(at string, info fs.FileInfo) error {
		if err := root.Lchown(at, -1, int(*group)); err != nil || info.Mode()&fs.ModeSymlink != 0 {
			return err
		}
		// As it was before: another group takes setuid and setgid from a program.
		mode := info.Mode() | 0o660
		if info.IsDir() {
			mode |= folderMode | fs.ModeSetgid
		}
		return root.Chmod(at, mode)
	})
	if err != nil {
		return fmt.Errorf("fsGroup: %w", err)
	}
	return nil
}

// folderMode is what owner and group may do with a folder of fsGroup.
const folderMode = 0o770

// owned says whether a volume was given to the group: its folder is the last of it.
func owned(dir string, group int64) bool {
	info, err := os.Stat(dir)
	if err != nil {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int64(st.Gid) == group && info.IsDir() && info.Mode()&fs.ModeSetgid != 0 && info.Mode()&folderMode == folderMode
}

// walkUp visits what lies in a folder before the folder itself, which so tells for all:
// one that failed half-way has not got there.
func walkUp(root *os.Root, at string, visit func(at string, info fs.FileInfo) error) error {
	info, err := root.Lstat(at)
	if err != nil {
		return err
	}
	if info.IsDir() {
		entries, err := fs.ReadDir(root.FS(), at)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := walkUp(root, path.Join(at, e.Name()), visit); err != nil {
				return err
			}
		}
	}
	return visit(at, info)
}
