package nodeagent_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clienttesting "k8s.io/client-go/testing"

	"github.com/berth-dev/berth/nodeagent"
	"github.com/berth-dev/berth/nodeagent/image"
	"github.com/berth-dev/berth/nodeagent/network"
	"github.com/berth-dev/berth/nodeagent/runtime"
	"github.com/berth-dev/berth/nodeagent/volume"
)

var errKilled = errors.New("the agent was killed")

// doomed is an agent that is killed at one of the calls by which it changes
// something outside itself, and started anew. What it does after the kill has no
// effect, and of its files those are left that were there then.
type doomed struct {
	fakes
	t       *testing.T
	stop    func()
	watched <-chan struct{} // closed when the agent watches its pods

	mu     sync.Mutex
	point  string // the call to die at
	after  bool   // once it is done, or before
	passed map[string]int
	order  []string
	dead   bool
	killed chan struct{}
	files  string // a copy of the agent's, as they were
	groups map[string]bool
	mounts map[string]bool
	starts map[string]int
}

// gate lets a call pass, unless the agent is dead by then.
func (d *doomed) gate(name string, call func() error) error {
	if err := d.enter(name, false); err != nil {
		return err
	}
	err := call()
	if killed := d.enter(name, true); killed != nil {
		return killed
	}
	return err
}

func (d *doomed) enter(name string, after bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return errKilled
	}
	if !after {
		d.passed[name]++
		d.order = append(d.order, fmt.Sprintf("%s#%d", name, d.passed[name]))
	}
	if d.point != fmt.Sprintf("%s#%d", name, d.passed[name]) || d.after != after {
		return nil
	}
	d.dead = true
	copyTree(d.t, d.root, d.files)
	close(d.killed)
	return errKilled
}

// copyTree copies files, folders and links.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it went away meanwhile
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		switch {
		case e.IsDir():
			return os.MkdirAll(target, 0o755)
		case e.Type() == fs.ModeSymlink:
			link, err := os.Readlink(path)
			return errors.Join(err, os.Symlink(link, target))
		}
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return errors.Join(err, os.WriteFile(target, data, 0o644))
	})
	if err != nil {
		t.Error(err)
	}
}

// What the agent works with, each behind the gate.
type (
	killedRuntime struct {
		runtime.Runtime
		d *doomed
	}
	killedNetwork struct {
		network.Network
		d *doomed
	}
	killedImages struct {
		image.Store
		d *doomed
	}
	killedMounts struct {
		volume.Plain
		d *doomed
	}
	killedGroups struct{ d *doomed }
)

func (k killedRuntime) RunSandbox(ctx context.Context, cfg runtime.SandboxConfig) (id string, err error) {
	err = k.d.gate("RunSandbox", func() error { id, err = k.Runtime.RunSandbox(ctx, cfg); return err })
	return id, err
}

func (k killedRuntime) RemoveSandbox(ctx context.Context, id string) error {
	return k.d.gate("RemoveSandbox", func() error { return k.Runtime.RemoveSandbox(ctx, id) })
}

func (k killedRuntime) CreateContainer(ctx context.Context, sandbox string, cfg runtime.ContainerConfig) (id string, err error) {
	err = k.d.gate("CreateContainer "+cfg.Name, func() error { id, err = k.Runtime.CreateContainer(ctx, sandbox, cfg); return err })
	return id, err
}

func (k killedRuntime) StartContainer(ctx context.Context, id string) error {
	cfg, _ := k.d.runtime.Config(id)
	return k.d.gate("StartContainer "+cfg.Name, func() error {
		k.d.mu.Lock()
		k.d.starts[cfg.Name]++
		k.d.mu.Unlock()
		return k.Runtime.StartContainer(ctx, id)
	})
}

func (k killedRuntime) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	return k.d.gate("StopContainer", func() error { return k.Runtime.StopContainer(ctx, id, grace) })
}

func (k killedRuntime) RemoveContainer(ctx context.Context, id string) error {
	return k.d.gate("RemoveContainer", func() error { return k.Runtime.RemoveContainer(ctx, id) })
}

func (k killedRuntime) Exec(ctx context.Context, id string, cfg runtime.ExecConfig) (code int32, err error) {
	err = k.d.gate("Exec "+cfg.Args[len(cfg.Args)-1], func() error { code, err = k.Runtime.Exec(ctx, id, cfg); return err })
	return code, err
}

func (k killedNetwork) Add(ctx context.Context, p network.Pod) (a network.Attachment, err error) {
	err = k.d.gate("connect", func() error { a, err = k.Network.Add(ctx, p); return err })
	return a, err
}

func (k killedNetwork) Del(ctx context.Context, id string) error {
	return k.d.gate("disconnect", func() error { return k.Network.Del(ctx, id) })
}

func (k killedNetwork) Sweep(ctx context.Context, keep func() []string) error {
	return k.d.gate("sweep", func() error { return k.Network.Sweep(ctx, keep) })
}

func (k killedImages) Pull(ctx context.Context, ref string, creds []image.Credential, progress func(image.Progress)) (img image.Image, err error) {
	err = k.d.gate("Pull", func() error { img, err = k.Store.Pull(ctx, ref, creds, progress); return err })
	return img, err
}

func (k killedMounts) Tmpfs(dir string, size int64, mode fs.FileMode) error {
	return k.d.gate("mount", func() error {
		k.d.note(k.d.mounts, dir, true)
		return k.Plain.Tmpfs(dir, size, mode)
	})
}

func (k killedMounts) UnmountBelow(dir string) error {
	return k.d.gate("unmount", func() error {
		k.d.note(k.d.mounts, dir, false)
		return k.Plain.UnmountBelow(dir)
	})
}

func (k killedGroups) Ensure(path string, _ runtime.Resources) error {
	return k.d.gate("make cgroup", func() error { k.d.note(k.d.groups, path, true); return nil })
}

func (k killedGroups) Remove(path string) error {
	return k.d.gate("remove cgroup", func() error { k.d.note(k.d.groups, path, false); return nil })
}

// Pods lets the agent find cgroups that nobody needs.
func (k killedGroups) Pods(string) (uids []string) {
	k.d.mu.Lock()
	defer k.d.mu.Unlock()
	for path := range k.d.groups {
		if _, uid, ok := strings.Cut(filepath.Base(path), "pod"); ok {
			uids = append(uids, uid)
		}
	}
	return uids
}

// note puts a name into a set, or takes all out that lie at and below it.
func (d *doomed) note(set map[string]bool, name string, in bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if in {
		set[name] = true
		return
	}
	maps.DeleteFunc(set, func(have string, _ bool) bool { return have == name || strings.HasPrefix(have, name+"/") })
}

// newDoomed starts an agent that dies at a point; at "" it never does.
func newDoomed(t *testing.T, dir, point string, after bool) *doomed {
	d := &doomed{
		t: t, point: point, after: after, killed: make(chan struct{}), files: filepath.Join(dir, "left"),
		passed: map[string]int{}, groups: map[string]bool{}, mounts: map[string]bool{}, starts: map[string]int{},
	}
	d.fakes = newFakes(filepath.Join(dir, "agent"), func(a clienttesting.Action, call func() error) error {
		if a.GetResource().Resource != "pods" || a.GetVerb() != "patch" && a.GetVerb() != "delete" {
			return call()
		}
		return d.gate("API "+a.GetVerb(), call)
	})
	d.start()
	return d
}

func (d *doomed) start() {
	cfg := d.config()
	cfg.Runtime, cfg.Network, cfg.Images = killedRuntime{d.runtime, d}, killedNetwork{d.network, d}, killedImages{d.images, d}
	cfg.Cgroups, cfg.Mounter = killedGroups{d}, killedMounts{d: d}
	d.watched = d.api.Watched("pods")
	a, err := nodeagent.New(cfg)
	if err != nil {
		d.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	d.stop = func() {
		cancel()
		if err := <-done; err != nil {
			d.t.Errorf("Run: %v", err)
		}
	}
}

// await looks until it is so, and brings a killed agent back.
func (d *doomed) await(what string, is func() bool) {
	d.t.Helper()
	revived := false
	for range 20 * 60 * 15 { // a quarter of an hour, of the bubble's time
		select {
		case <-d.killed:
			if d.mu.Lock(); d.dead {
				d.mu.Unlock()
				d.revive()
				revived = true
				continue
			}
			d.mu.Unlock()
		default:
		}
		if is() {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	d.t.Fatalf("never: %s (revived now: %v); calls %q", what, revived, d.order)
}

func (d *doomed) revive() {
	d.stop()
	if err := errors.Join(os.RemoveAll(d.root), os.Rename(d.files, d.root)); err != nil {
		d.t.Fatal(err)
	}
	d.mu.Lock()
	d.dead = false
	d.order = append(d.order, "killed")
	d.mu.Unlock()
	d.start()
}

func (d *doomed) pod() *v1.Pod {
	p, err := d.api.CoreV1().Pods("default").Get(context.Background(), "pod", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		d.t.Fatal(err)
	}
	return p
}

// left is all that is on the machine of the pod.
func (d *doomed) left() (left []string) {
	list, err := d.runtime.List(context.Background())
	if err != nil {
		d.t.Fatal(err)
	}
	for _, s := range list.Sandboxes {
		left = append(left, fmt.Sprintf("sandbox %d %s", s.Attempt, s.State))
	}
	for _, c := range list.Containers {
		left = append(left, fmt.Sprintf("container %s %d %s", c.Name, c.Attempt, c.State))
	}
	if n := d.network.Attached(); n > 0 {
		left = append(left, fmt.Sprintf("%d networks", n))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, path := range slices.Concat(slices.Collect(maps.Keys(d.groups)), slices.Collect(maps.Keys(d.mounts))) {
		if strings.Contains(path, "uid-pod") {
			left = append(left, path)
		}
	}
	_ = filepath.WalkDir(d.root, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.Contains(filepath.Base(path), "uid-pod") {
			left = append(left, path)
		}
		return nil
	})
	slices.Sort(left)
	return left
}

func (d *doomed) terminate() {
	p := d.pod()
	at, grace := metav1.NewTime(time.Now().Add(5*time.Second)), int64(5)
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &at, &grace
	if _, err := d.api.CoreV1().Pods("default").Update(context.Background(), p, metav1.UpdateOptions{}); err != nil {
		d.t.Fatal(err)
	}
}

// life is what becomes of a pod, and what must hold in it wherever the agent is
// killed.
type life struct {
	name string
	pod  func() *v1.Pod
	// lived waits until the pod did what it is for.
	lived func(d *doomed)
}

func hooked() *v1.Pod {
	p := newPod("pod", "sleep 6000")
	sh := func(text string) *v1.ExecAction { return &v1.ExecAction{Command: []string{"sh", "-c", text}} }
	p.Spec.InitContainers = []v1.Container{{Name: "first", Image: "busybox:1", Command: []string{"/bin/sh", "-c", "sleep 1; exit 0"}}}
	p.Spec.Volumes = []v1.Volume{
		{Name: "memory", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}},
		{Name: "disk", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
	}
	c := &p.Spec.Containers[0]
	c.VolumeMounts = []v1.VolumeMount{{Name: "memory", MountPath: "/memory"}, {Name: "disk", MountPath: "/disk"}}
	c.ReadinessProbe = &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: sh("true")}, PeriodSeconds: 1, SuccessThreshold: 1, FailureThreshold: 3, TimeoutSeconds: 1}
	c.Lifecycle = &v1.Lifecycle{
		PostStart: &v1.LifecycleHandler{Exec: sh("echo up")}, PreStop: &v1.LifecycleHandler{Exec: sh("echo down")},
	}
	return p
}

var lives = []life{
	{"a pod that serves", hooked, func(d *doomed) {
		d.await("the pod is ready", func() bool { return ready(d.pod()) })
		d.await("its network is its only one", func() bool { return d.network.Attached() == 1 })
		list, err := d.runtime.List(context.Background())
		if err != nil {
			d.t.Fatal(err)
		}
		var runs []string
		for _, c := range list.Containers {
			runs = append(runs, c.Name+" "+string(c.State))
		}
		slices.Sort(runs)
		if len(list.Sandboxes) != 1 || !slices.Equal(runs, []string{"app running", "first exited"}) {
			d.t.Errorf("%d sandboxes, containers %q", len(list.Sandboxes), runs)
		}
		if s := d.pod().Status; s.Phase != v1.PodRunning || s.PodIP == "" || s.ContainerStatuses[0].RestartCount != 0 || s.InitContainerStatuses[0].State.Terminated == nil {
			d.t.Errorf("status %+v", s)
		}
	}},
	{"a pod that ends", func() *v1.Pod {
		p := newPod("pod", "sleep 2; echo why > /dev/termination-log; exit 3")
		p.Spec.RestartPolicy = v1.RestartPolicyNever
		return p
	}, func(d *doomed) {
		d.await("the pod has failed", func() bool { return d.pod().Status.Phase == v1.PodFailed })
		end := d.pod().Status.ContainerStatuses[0].State.Terminated
		if end == nil || end.ExitCode != 3 || end.Message != "why\n" {
			d.t.Errorf("state %+v", d.pod().Status.ContainerStatuses[0].State)
		}
	}},
	{"a pod whose sidecar outlives its work", func() *v1.Pod {
		p, always := newPod("pod", "sleep 2; exit 0"), v1.ContainerRestartPolicyAlways
		p.Spec.RestartPolicy = v1.RestartPolicyNever
		p.Spec.InitContainers = []v1.Container{{Name: "side", Image: "busybox:1", RestartPolicy: &always, Command: []string{"/bin/sh", "-c", "sleep 6000"}}}
		return p
	}, func(d *doomed) {
		d.await("the pod has succeeded", func() bool { return d.pod().Status.Phase == v1.PodSucceeded })
		if side := d.pod().Status.InitContainerStatuses[0].State.Terminated; side == nil || side.ExitCode != 143 {
			d.t.Errorf("the sidecar's state %+v", d.pod().Status.InitContainerStatuses[0].State)
		}
	}},
}

// lead leads a pod through its life and out of it.
func (l life) lead(t *testing.T, dir, point string, after bool) *doomed {
	d := newDoomed(t, dir, point, after)
	defer func() { d.stop() }()
	select {
	case <-d.watched:
	case <-d.killed: // whoever follows finds the pod in its list
	}
	if _, err := d.api.CoreV1().Pods("default").Create(context.Background(), l.pod(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	l.lived(d)
	d.terminate()
	d.await("the pod has gone from the API", func() bool { return d.pod() == nil })
	var left []string
	d.await("nothing is left", func() bool { left = d.left(); return len(left) == 0 })
	for name, n := range d.starts {
		if n != 1 {
			t.Errorf("container %s was started %d times", name, n)
		}
	}
	if t.Failed() {
		t.Logf("calls: %q\nleft: %q", d.order, left)
	}
	return d
}

// Wherever the agent is killed, the one that follows brings the pod to where it
// would have come, without a container that runs twice, and leaves nothing.
func TestKilledAgentIsFollowedByOneThatKnowsWhatToDo(t *testing.T) {
	t.Parallel()
	for _, l := range lives {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			var points []string
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) { points = l.lead(t, dir, "", false).order })
			if len(points) < 15 {
				t.Fatalf("only %d points to be killed at: %q", len(points), points)
			}
			for _, point := range points {
				for _, after := range []bool{false, true} {
					t.Run(map[bool]string{false: "before ", true: "after "}[after]+point, func(t *testing.T) {
						t.Parallel()
						dir := t.TempDir()
						synctest.Test(t, func(t *testing.T) { l.lead(t, dir, point, after) })
					})
				}
			}
		})
	}
}
