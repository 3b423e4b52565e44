package cni

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/nodeagent/userns"
)

// makeNetns makes a network namespace that lives as long as the file at path. A
// user namespace of the ids owns it, unless they are the machine's own.
func makeNetns(path string, ids userns.Range) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o711); err != nil {
		return fmt.Errorf("make network namespace: %w", err)
	}
	if err := os.WriteFile(path, nil, 0o444); err != nil {
		return fmt.Errorf("make network namespace: %w", err)
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends in its namespace
		if ids.IsHost() {
			done <- unshareNetns(path)
		} else {
			done <- ownedNetns(path, ids)
		}
	}()
	if err := <-done; err != nil {
		return errors.Join(fmt.Errorf("make network namespace: %w", err), os.Remove(path))
	}
	return nil
}

// unshareNetns moves this thread into a new namespace, and shows it at path.
func unshareNetns(path string) error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	return showNetns(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()), path)
}

func showNetns(own, path string) error {
	if err := unix.Mount(own, path, "none", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount %s: %w", path, err)
	}
	return nil
}

// ownedNetns makes a user namespace, and in it the network namespace that it
// shows at path. They need a process to be made by: one that is stopped at its
// first instruction, and killed when the namespaces are held by the mount.
func ownedNetns(path string, ids userns.Range) error {
	maps := []syscall.SysProcIDMap{{ContainerID: 0, HostID: int(ids.First), Size: int(ids.Length)}}
	pid, _, err := syscall.StartProcess("/proc/self/exe", []string{"berth-userns"}, &syscall.ProcAttr{
		Sys: &syscall.SysProcAttr{
			Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNET,
			UidMappings: maps, GidMappings: maps, GidMappingsEnableSetgroups: true,
			Ptrace: true, Pdeathsig: syscall.SIGKILL,
		},
	})
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("this kernel permits no (more) user namespaces: see sysctl user.max_user_namespaces: %w", err)
	}
	if err != nil {
		return fmt.Errorf("start a process in a user namespace: %w", err)
	}
	err = showNetns(fmt.Sprintf("/proc/%d/ns/net", pid), path)
	return errors.Join(err, endProcess(pid))
}

// endProcess kills a process that is stopped for us, and reaps it.
func endProcess(pid int) error {
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		return fmt.Errorf("end process %d: %w", pid, err)
	}
	for {
		var st unix.WaitStatus
		_, err := unix.Wait4(pid, &st, 0, nil)
		if errors.Is(err, unix.EINTR) || err == nil && !st.Exited() && !st.Signaled() {
			continue
		}
		return err
	}
}

// removeNetns lets a namespace go; what is absent is gone.
func removeNetns(path string) error {
	err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove network namespace: unmount %s: %w", path, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove network namespace: %w", err)
	}
	return nil
}

// isNetns tells a namespace from a file that a reboot or a crash left.
func isNetns(path string) bool {
	var st unix.Statfs_t
	return unix.Statfs(path, &st) == nil && int64(st.Type) == unix.NSFS_MAGIC
}
