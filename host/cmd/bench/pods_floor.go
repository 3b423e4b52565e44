package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/containernetworking/cni/libcni"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	pauseprogram "github.com/berth-dev/berth/nodeagent/runtime/containerd/pause"
	"github.com/berth-dev/berth/nodeagent/tool"
)

// floor is what a pod cannot do without: a network namespace, its two CNI plugins, and
// two containers by runc, one of which holds the namespaces. Nobody keeps an image, a
// log, a cgroup or a record of it.
type floor struct {
	dir, root string
	cni       *libcni.CNIConfig
	lo, eth   *libcni.NetworkConfigList
	made      []string
}

// newFloor gives one whose containers run a program that is linked statically.
func newFloor(dir, program string) (*floor, error) {
	f := &floor{dir: dir, root: filepath.Join(dir, "rootfs")}
	found, err := tool.FindPlugins([]string{"bridge", "host-local", "loopback"})
	if err != nil {
		return nil, err
	}
	f.cni = libcni.NewCNIConfigWithCacheDir([]string{filepath.Dir(found["bridge"])}, filepath.Join(dir, "results"), nil)
	for _, d := range []string{f.root, filepath.Join(dir, "results")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, err
		}
	}
	for name, to := range map[string]**libcni.NetworkConfigList{
		`{"cniVersion":"1.0.0","name":"lo","plugins":[{"type":"loopback"}]}`: &f.lo,
		`{"cniVersion":"1.0.0","name":"floor","plugins":[{"type":"bridge","bridge":"floor0","isGateway":true,"hairpinMode":true,` +
			`"ipam":{"type":"host-local","ranges":[[{"subnet":"10.251.0.0/24"}]],"routes":[{"dst":"0.0.0.0/0"}],"dataDir":"` + filepath.Join(dir, "leases") + `"}}]}`: &f.eth,
	} {
		if *to, err = libcni.NetworkConfFromBytes([]byte(name)); err != nil {
			return nil, err
		}
	}
	if err := pauseprogram.Install(f.root); err != nil {
		return nil, err
	}
	b, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	return f, os.WriteFile(filepath.Join(f.root, "web"), b, 0o755) //nolint:gosec // it is run
}

// start starts n pods, as many side by side as keep the processors busy, and tells
// when each was there.
func (f *floor) start(ctx context.Context, n int) (times, error) {
	began, took := time.Now(), make(times, n)
	from := len(f.made)
	for i := range n {
		f.made = append(f.made, fmt.Sprint("pod-", from+i))
	}
	return took, each(ctx, f.beside(), n, func(ctx context.Context, i int) error {
		err := f.pod(ctx, f.made[from+i])
		took[i] = time.Since(began)
		return err
	})
}

func (f *floor) beside() int { return 2 * runtime.NumCPU() }

// end ends all pods that are there.
func (f *floor) end(ctx context.Context) (times, error) {
	began, took := time.Now(), make(times, len(f.made))
	defer func() { f.made = nil }()
	return took, each(ctx, f.beside(), len(f.made), func(ctx context.Context, i int) error {
		err := f.remove(ctx, f.made[i])
		took[i] = time.Since(began)
		return err
	})
}

func (f *floor) close() error {
	_, err := f.end(context.Background())
	return err
}

func (f *floor) netns(pod string) string { return filepath.Join(f.dir, pod+"-net") }

func (f *floor) attachment(pod, device string) *libcni.RuntimeConf {
	return &libcni.RuntimeConf{ContainerID: pod, NetNS: f.netns(pod), IfName: device}
}

func (f *floor) pod(ctx context.Context, pod string) error {
	if err := f.showNetns(pod); err != nil {
		return err
	}
	if _, err := f.cni.AddNetworkList(ctx, f.lo, f.attachment(pod, "lo")); err != nil {
		return err
	}
	if _, err := f.cni.AddNetworkList(ctx, f.eth, f.attachment(pod, "eth0")); err != nil {
		return err
	}
	net := oci.WithLinuxNamespace(specs.LinuxNamespace{Type: specs.NetworkNamespace, Path: f.netns(pod)})
	pid, err := f.run(ctx, pod+"-pause", "/"+pauseprogram.Name, net)
	if err != nil {
		return err
	}
	of := func(kind specs.LinuxNamespaceType, name string) oci.SpecOpts {
		return oci.WithLinuxNamespace(specs.LinuxNamespace{Type: kind, Path: fmt.Sprintf("/proc/%s/ns/%s", pid, name)})
	}
	_, err = f.run(ctx, pod+"-web", "/web", net, of(specs.IPCNamespace, "ipc"), of(specs.UTSNamespace, "uts"))
	return err
}

// showNetns makes a pod's network namespace.
func (f *floor) showNetns(pod string) error {
	path := f.netns(pod)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends in its namespace
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			err = unix.Mount(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()), path, "none", unix.MS_BIND, "")
		}
		done <- err
	}()
	return <-done
}

// run has runc make and start a container of a program, and gives its process.
func (f *floor) run(ctx context.Context, id, program string, opts ...oci.SpecOpts) (pid string, err error) {
	bundle := filepath.Join(f.dir, id)
	if err := os.Mkdir(bundle, 0o700); err != nil {
		return "", err
	}
	opts = append([]oci.SpecOpts{oci.WithRootFSPath(f.root), oci.WithRootFSReadonly(), oci.WithProcessArgs(program)}, opts...)
	spec, err := oci.GenerateSpec(namespaces.WithNamespace(ctx, "floor"), nil, &containers.Container{ID: id}, opts...)
	if err != nil {
		return "", err
	}
	b, err := json.Marshal(spec)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(bundle, "config.json"), b, 0o600); err != nil {
		return "", err
	}
	file := filepath.Join(bundle, "pid")
	if err := f.runc(ctx, "run", "--detach", "--pid-file", file, "--bundle", bundle, id); err != nil {
		return "", err
	}
	b, err = os.ReadFile(file)
	return string(b), err
}

func (f *floor) runc(ctx context.Context, args ...string) error {
	// A pipe would be held open by the container.
	said, err := os.CreateTemp(f.dir, "runc-")
	if err != nil {
		return err
	}
	defer os.Remove(said.Name())
	defer said.Close()
	cmd := exec.CommandContext(ctx, "runc", append([]string{"--root", filepath.Join(f.dir, "runc")}, args...)...)
	cmd.Stderr = said
	if err := cmd.Run(); err != nil {
		text, _ := os.ReadFile(said.Name())
		return fmt.Errorf("runc %s: %w: %s", args[0], err, text)
	}
	return nil
}

func (f *floor) remove(ctx context.Context, pod string) error {
	var errs []error
	for _, id := range []string{pod + "-web", pod + "-pause"} {
		errs = append(errs, f.runc(ctx, "delete", "--force", id), os.RemoveAll(filepath.Join(f.dir, id)))
	}
	errs = append(errs, f.cni.DelNetworkList(ctx, f.eth, f.attachment(pod, "eth0")), f.cni.DelNetworkList(ctx, f.lo, f.attachment(pod, "lo")),
		unix.Unmount(f.netns(pod), unix.MNT_DETACH), os.Remove(f.netns(pod)))
	return errors.Join(errs...)
}
