package containerd_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-dev/berth/host/polltest"
	"github.com/berth-dev/berth/nodeagent/cgroup"
	"github.com/berth-dev/berth/nodeagent/network/netnstest"
	"github.com/berth-dev/berth/nodeagent/runtime"
)

// pod is a sandbox for a test, removed at its end.
type pod struct {
	*node
	t  *testing.T
	id string
}

func (n *node) pod(t *testing.T, change func(*runtime.SandboxConfig)) pod {
	t.Helper()
	uid := fmt.Sprintf("uid-%d", time.Now().UnixNano())
	cfg := runtime.SandboxConfig{
		Pod: runtime.PodMeta{Namespace: "default", Name: "p", UID: uid}, CgroupParent: "/berth-test/pod" + uid,
	}
	if change != nil {
		change(&cfg)
	}
	id, err := n.runtime.RunSandbox(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.runtime.RemoveSandbox(context.Background(), id); err != nil {
			t.Error(err)
		}
	})
	return pod{n, t, id}
}

func (p pod) config(script string) runtime.ContainerConfig {
	return runtime.ContainerConfig{
		Name: "app", Image: p.image, Args: []string{"/bin/sh", "-c", script}, LogPath: filepath.Join(p.t.TempDir(), "0.log"),
		Env: []runtime.EnvVar{{Name: "PATH", Value: "/bin"}},
	}
}

func (p pod) start(cfg runtime.ContainerConfig) string {
	p.t.Helper()
	id, err := p.runtime.CreateContainer(p.t.Context(), p.id, cfg)
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.runtime.StartContainer(p.t.Context(), id); err != nil {
		p.t.Fatal(err)
	}
	return id
}

func (p pod) find(id string) runtime.Container {
	p.t.Helper()
	list, err := p.runtime.List(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	for _, c := range list.Containers {
		if c.ID == id {
			return c
		}
	}
	p.t.Fatalf("container %s is not listed", id)
	return runtime.Container{}
}

func (p pod) ended(id string) runtime.Container {
	p.t.Helper()
	var c runtime.Container
	polltest.Until(p.t, "container "+id+" ends", func() bool {
		c = p.find(id)
		return c.State == runtime.Exited
	})
	return c
}

// output runs a script to its end and gives what it logged, without the times.
func (p pod) output(cfg runtime.ContainerConfig) string {
	p.t.Helper()
	c := p.ended(p.start(cfg))
	text := logged(p.t, cfg.LogPath)
	if c.ExitCode != 0 {
		p.t.Fatalf("exit code %d, output %q", c.ExitCode, text)
	}
	return text
}

func logged(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(b)) {
		if fields := strings.SplitN(line, " ", 4); len(fields) == 4 {
			out.WriteString(fields[3])
		}
	}
	return out.String()
}

func TestContainers(t *testing.T) {
	n := newNode(t)
	for name, test := range map[string]func(*testing.T, *node){
		"user and groups come from the image's files":        testUsers,
		"capabilities are added and dropped":                 testCapabilities,
		"a privileged container may do what the machine may": testPrivileged,
		"limits reach the cgroup":                            testLimits,
		"memory over the limit is an OOM kill":               testOOM,
		"a pod shares its namespaces and its memory":         testShared,
		"a shared process namespace shows the others":        testSharedProcesses,
		"the kernel's files are masked":                      testMasked,
		"a seccomp profile forbids":                          testSeccomp,
		"mounts propagate when asked":                        testPropagation,
		"mounts are read-only recursively when asked":        testRecursiveReadOnly,
		"a terminal has a size":                              testTTY,
		"a port of the pod can be reached":                   testPortForward,
		"logs are rotated":                                   testRotation,
		"a command that leaves a child behind returns":       testBackground,
		"the last output is there when the exit is":          testLastOutput,
		"a container that runs twice is refused":             testStartTwice,
		"an image that is absent is not found":               testNoImage,
		"an unknown user is an error":                        testNoUser,
		"limits can change while it runs":                    testUpdate,
		"an image's folders are mounted":                     testImageVolume,
		"a sandbox that does not start leaves nothing":       testFailedSandbox,
		"a pod has another runtime":                          testHandler,
	} {
		t.Run(name, func(t *testing.T) { test(t, n) })
	}
}

func number(n int64) *int64 { return &n }

func testUsers(t *testing.T, n *node) {
	p := n.pod(t, nil)
	tests := []struct {
		name string
		sec  runtime.Security
		want string
	}{
		{"none", runtime.Security{}, "uid=0(root) gid=0(root) groups=0(root)"},
		{"a name", runtime.Security{Username: "app"}, "uid=1234(app) gid=2345(app) groups=50(staff),2345(app)"},
		{"a name and group", runtime.Security{Username: "app:staff"}, "uid=1234(app) gid=50(staff) groups=50(staff)"},
		{"an unknown number", runtime.Security{RunAsUser: number(77)}, "uid=77 gid=0(root) groups=0(root)"},
		{"numbers", runtime.Security{RunAsUser: number(77), RunAsGroup: number(88), SupplementalGroups: []int64{99}}, "uid=77 gid=88 groups=88,99"},
		{"strict groups", runtime.Security{Username: "app", StrictGroups: true}, "uid=1234(app) gid=2345(app) groups=2345(app)"},
	}
	for _, tt := range tests {
		cfg := p.config("id")
		cfg.Security = tt.sec
		if got := strings.TrimSpace(p.output(cfg)); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func testCapabilities(t *testing.T, n *node) {
	p := n.pod(t, nil)
	const chown, netAdmin = 1 << 0, 1 << 12
	tests := []struct {
		name      string
		sec       runtime.Security
		has, lack uint64
	}{
		{"the defaults", runtime.Security{}, chown, netAdmin},
		{"one dropped", runtime.Security{DropCapabilities: []string{"CHOWN"}}, 0, chown},
		{"one added", runtime.Security{AddCapabilities: []string{"net_admin"}}, chown | netAdmin, 0},
		{"all dropped", runtime.Security{DropCapabilities: []string{"ALL"}}, 0, ^uint64(0)},
		{"all dropped but one", runtime.Security{DropCapabilities: []string{"all"}, AddCapabilities: []string{"CHOWN"}}, chown, ^uint64(chown)},
	}
	for _, tt := range tests {
		cfg := p.config("grep CapEff /proc/self/status")
		cfg.Security = tt.sec
		var got uint64
		if _, err := fmt.Sscanf(p.output(cfg), "CapEff: %x", &got); err != nil {
			t.Fatal(err)
		}
		if got&tt.has != tt.has || got&tt.lack != 0 {
			t.Errorf("%s: %#x, want %#x and none of %#x", tt.name, got, tt.has, tt.lack)
		}
	}
	cfg := p.config("true")
	cfg.Security.AddCapabilities = []string{"FLY"}
	if _, err := n.runtime.CreateContainer(t.Context(), p.id, cfg); err == nil || !strings.Contains(err.Error(), `unknown capability "FLY"`) {
		t.Errorf("CreateContainer: %v, want the unknown capability", err)
	}
}

// devicesOf lists the devices of a folder, without what is a terminal's.
func devicesOf(t *testing.T, dir string) (names []string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Type()&os.ModeDevice != 0 && e.Name() != "console" && e.Name() != "ptmx" {
			names = append(names, e.Name())
		}
	}
	return names
}

// testPrivileged compares with this process, which is what the agent would be.
func testPrivileged(t *testing.T, n *node) {
	p := n.pod(t, func(c *runtime.SandboxConfig) { c.NetNS = string(netnstest.New(t)) })
	effective := func(text string) (set uint64) {
		for line := range strings.Lines(text) {
			if value, ok := strings.CutPrefix(line, "CapEff:"); ok {
				if _, err := fmt.Sscanf(value, "%x", &set); err != nil {
					t.Fatal(err)
				}
			}
		}
		return set
	}
	own, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	cfg := p.config("cat /proc/self/status")
	cfg.Security.Privileged = true
	status := p.output(cfg)
	if got, want := effective(status), effective(string(own)); got != want {
		t.Errorf("capabilities %#x, want %#x", got, want)
	}
	cfg = p.config("ls /dev")
	cfg.Security.Privileged = true
	seen := strings.Fields(p.output(cfg))
	for _, device := range devicesOf(t, "/dev") {
		if !slices.Contains(seen, device) {
			t.Errorf("/dev/%s is missing", device)
		}
	}
	for what, script := range map[string]string{
		"a device of its own making": "mknod /tmp/kmsg c 1 11 && : < /tmp/kmsg",
		"/sys to be written":         "grep -q ' /sys sysfs rw' /proc/mounts",
		"cgroups to be written":      "! grep ' /sys/fs/cgroup' /proc/mounts | grep -q ' ro,'",
		"nothing masked in /proc":    "! grep -E ' /proc/(kcore|keys|sys|irq|bus) ' /proc/mounts",
		"the kernel's settings":      "echo 77 > /proc/sys/net/ipv4/ip_default_ttl",
		"mounts":                     "mkdir /tmp/m && mount -t tmpfs none /tmp/m && umount /tmp/m",
	} {
		for _, privileged := range []bool{true, false} {
			cfg := p.config(script)
			cfg.Security.Privileged = privileged
			if c := p.ended(p.start(cfg)); (c.ExitCode == 0) != privileged {
				t.Errorf("%s, privileged %v: exit code %d, said %q", what, privileged, c.ExitCode, logged(t, cfg.LogPath))
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cfg = p.config("sleep 600")
	cfg.Security.Privileged = true
	var out bytes.Buffer
	code, err := n.runtime.Exec(ctx, p.start(cfg), runtime.ExecConfig{Args: []string{"/bin/cat", "/proc/self/status"}, IO: runtime.IO{Stdout: &out}})
	if err != nil || code != 0 || effective(out.String()) != effective(string(own)) {
		t.Errorf("exec: %d, %v, capabilities %#x", code, err, effective(out.String()))
	}
}

// cgroupFile reads a file of a process's cgroup, by its name in either version.
func cgroupFile(t *testing.T, pid int, v1controller, v1, v2 string) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		path := filepath.Join("/sys/fs/cgroup", v1controller, parts[2], v1)
		if parts[1] == "" {
			path = filepath.Join("/sys/fs/cgroup", parts[2], v2)
		} else if parts[1] != v1controller {
			continue
		}
		if b, err := os.ReadFile(path); err == nil {
			return strings.TrimSpace(string(b))
		}
	}
	t.Fatalf("no %s or %s for process %d in %s", v1, v2, pid, b)
	return ""
}

func testLimits(t *testing.T, n *node) {
	p := n.pod(t, nil)
	cfg := p.config("sleep 600")
	cfg.Resources = runtime.Resources{MemoryLimit: 64 << 20, PidsLimit: 77, CPUShares: 512, CPUQuota: 20000, CPUPeriod: 100000, OOMScoreAdj: 500}
	pid := p.find(p.start(cfg)).PID
	if got := cgroupFile(t, pid, "memory", "memory.limit_in_bytes", "memory.max"); got != fmt.Sprint(64<<20) {
		t.Errorf("memory limit %s", got)
	}
	if got := cgroupFile(t, pid, "pids", "pids.max", "pids.max"); got != "77" {
		t.Errorf("pids limit %s", got)
	}
	if got := cgroupFile(t, pid, "cpu", "cpu.cfs_quota_us", "cpu.max"); !strings.HasPrefix(got, "20000") {
		t.Errorf("cpu quota %s", got)
	}
	if got := cgroupFile(t, pid, "cpu", "cpu.shares", "cpu.weight"); got != "512" && got != "59" {
		t.Errorf("cpu shares or weight %s, want 512 shares or a weight of 59", got)
	}
	if b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid)); strings.TrimSpace(string(b)) != "500" {
		t.Errorf("oom score %s", b)
	}
}

func testUpdate(t *testing.T, n *node) {
	p := n.pod(t, nil)
	id := p.start(p.config("sleep 600"))
	if err := n.runtime.UpdateContainer(t.Context(), id, runtime.Resources{MemoryLimit: 48 << 20}); err != nil {
		t.Fatal(err)
	}
	if got := cgroupFile(t, p.find(id).PID, "memory", "memory.limit_in_bytes", "memory.max"); got != fmt.Sprint(48<<20) {
		t.Errorf("memory limit %s", got)
	}
	if err := n.runtime.UpdateContainer(t.Context(), "absent", runtime.Resources{}); !errors.Is(err, runtime.ErrNotFound) {
		t.Errorf("UpdateContainer of none: %v", err)
	}
}

func testOOM(t *testing.T, n *node) {
	p := n.pod(t, nil)
	cfg := p.config("head -c 200000000 /dev/zero | tail")
	cfg.Args = []string{"/bin/tail", "/dev/zero"}
	cfg.Resources = runtime.Resources{MemoryLimit: 16 << 20}
	if c := p.ended(p.start(cfg)); !c.OOMKilled || c.ExitCode != 137 {
		t.Errorf("exit code %d, OOM %v; want 137, true", c.ExitCode, c.OOMKilled)
	}
	if tree, err := cgroup.Open("/sys/fs/cgroup"); err != nil || !tree.V2() {
		return // v1 ends the one process that wanted too much
	}
	cfg = p.config("tail /dev/zero; exec sleep 600")
	cfg.Resources = runtime.Resources{MemoryLimit: 16 << 20}
	if c := p.ended(p.start(cfg)); !c.OOMKilled || c.ExitCode != 137 {
		t.Errorf("with processes that want little, exit code %d, OOM %v; want 137, true", c.ExitCode, c.OOMKilled)
	}
}

func testShared(t *testing.T, n *node) {
	p := n.pod(t, nil)
	p.output(p.config("echo hi > /dev/shm/file"))
	if got := p.output(p.config("cat /dev/shm/file")); got != "hi\n" {
		t.Errorf("the other container's file in /dev/shm: %q", got)
	}
	one, two := p.find(p.start(p.config("sleep 600"))).PID, p.find(p.start(p.config("sleep 600"))).PID
	for ns, shared := range map[string]bool{"net": true, "ipc": true, "uts": true, "pid": false, "mnt": false} {
		a, errA := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", one, ns))
		b, errB := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", two, ns))
		if err := errors.Join(errA, errB); err != nil || (a == b) != shared {
			t.Errorf("namespaces %s and %s, %v, want shared: %v", a, b, err, shared)
		}
	}
}

func testSharedProcesses(t *testing.T, n *node) {
	p := n.pod(t, func(c *runtime.SandboxConfig) { c.ShareProcesses = true })
	p.start(p.config("exec sleep 654"))
	got := p.output(p.config("ps"))
	if !strings.Contains(got, "sleep 654") || !strings.Contains(got, "/pause") {
		t.Errorf("ps shows %q", got)
	}
}

func testMasked(t *testing.T, n *node) {
	p := n.pod(t, func(c *runtime.SandboxConfig) { c.NetNS = string(netnstest.New(t)) }) // so that no write leaves the pod
	const write = "echo 77 > /proc/sys/net/ipv4/ip_default_ttl"
	p.output(p.config("! " + write))
	cfg := p.config(write)
	cfg.Security.Unmasked = true
	p.output(cfg)
}

func testSeccomp(t *testing.T, n *node) {
	p := n.pod(t, nil)
	profile := filepath.Join(t.TempDir(), "profile.json")
	const noMkdir = `{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["mkdir","mkdirat"],"action":"SCMP_ACT_ERRNO"}]}`
	if err := os.WriteFile(profile, []byte(noMkdir), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		seccomp runtime.Seccomp
		script  string
	}{
		{runtime.Seccomp{}, "mkdir /tmp/d && grep -q 'Seccomp:.*0' /proc/self/status"},
		{runtime.Seccomp{Type: runtime.SeccompRuntimeDefault}, "mkdir /tmp/d && grep -q 'Seccomp:.*2' /proc/self/status && ! unshare -U true"},
		{runtime.Seccomp{Type: runtime.SeccompLocalhost, Path: profile}, "! mkdir /tmp/d"},
	}
	for _, tt := range tests {
		cfg := p.config(tt.script)
		cfg.Security.Seccomp = tt.seccomp
		p.output(cfg)
	}
}

func testPropagation(t *testing.T, n *node) {
	p := n.pod(t, nil)
	dir := t.TempDir()
	// A mount point that is shared, as / usually is.
	if err := syscall.Mount(dir, dir, "", syscall.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	if err := syscall.Mount("", dir, "", syscall.MS_SHARED|syscall.MS_REC, ""); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		propagation string
		seen        bool
	}{{"", false}, {"rslave", true}} {
		sub := filepath.Join(dir, "sub"+tt.propagation)
		if err := os.Mkdir(sub, 0o755); err != nil {
			t.Fatal(err)
		}
		cfg := p.config("while [ ! -e /in/go ]; do sleep 0.05; done; ls /in/sub" + tt.propagation)
		cfg.Mounts = []runtime.Mount{{HostPath: dir, ContainerPath: "/in", Propagation: tt.propagation}}
		id := p.start(cfg)
		if err := syscall.Mount("none", sub, "tmpfs", 0, ""); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{filepath.Join(sub, "later"), filepath.Join(dir, "go")} {
			if err := os.WriteFile(file, nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		p.ended(id)
		if got := strings.Contains(logged(t, cfg.LogPath), "later"); got != tt.seen {
			t.Errorf("propagation %q: seen %v, want %v", tt.propagation, got, tt.seen)
		}
		if err := errors.Join(syscall.Unmount(sub, 0), os.Remove(filepath.Join(dir, "go"))); err != nil {
			t.Fatal(err)
		}
	}
}

func testRecursiveReadOnly(t *testing.T, n *node) {
	version, err := n.runtime.Version(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !version.RecursiveReadOnly {
		t.Skip("runc or the kernel cannot")
	}
	p := n.pod(t, nil)
	dir := t.TempDir()
	sub := filepath.Join(dir, "sub")
	if err := os.Mkdir(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("none", sub, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(sub, syscall.MNT_DETACH) })
	for script, recursive := range map[string]bool{
		"! echo x > /in/f && echo x > /in/sub/f":   false,
		"! echo x > /in/f && ! echo x > /in/sub/f": true,
	} {
		cfg := p.config(script)
		cfg.Mounts = []runtime.Mount{{HostPath: dir, ContainerPath: "/in", ReadOnly: true, RecursiveReadOnly: recursive}}
		if c := p.ended(p.start(cfg)); c.ExitCode != 0 {
			t.Errorf("recursively %v: %q fails: %q", recursive, script, logged(t, cfg.LogPath))
		}
	}
}

func testTTY(t *testing.T, n *node) {
	p := n.pod(t, nil)
	id := p.start(p.config("sleep 600"))
	sizes := make(chan runtime.TerminalSize, 1)
	sizes <- runtime.TerminalSize{Width: 123, Height: 45}
	var out bytes.Buffer
	code, err := n.runtime.Exec(t.Context(), id, runtime.ExecConfig{
		Args: []string{"/bin/sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10; do stty size 2>/dev/null | grep '45 123' && exit 0; sleep 0.2; done; exit 1"},
		IO:   runtime.IO{Stdin: new(blocking), Stdout: &out, TTY: true, Resize: sizes},
	})
	if err != nil || code != 0 || out.String() != "45 123\r\n" {
		t.Errorf("Exec = %d, %v, output %q", code, err, out.String())
	}
	cfg := p.config("tty; echo $TERM")
	cfg.TTY = true
	if got := p.output(cfg); got != "/dev/pts/0\r\nxterm\r\n" {
		t.Errorf("a container with a terminal prints %q", got)
	}
}

// blocking is a reader whose user types nothing.
type blocking struct{}

func (*blocking) Read([]byte) (int, error) { select {} }

func testPortForward(t *testing.T, n *node) {
	p := n.pod(t, func(c *runtime.SandboxConfig) { c.NetNS = string(netnstest.New(t)) })
	p.start(p.config("while true; do echo pong | nc -l -p 7777; done"))
	polltest.Until(t, "the port answers", func() bool {
		near, far := net.Pipe()
		done := make(chan error, 1)
		go func() { done <- n.runtime.PortForward(t.Context(), p.id, 7777, far) }()
		near.SetReadDeadline(time.Now().Add(5 * time.Second))
		line := make([]byte, 5)
		_, err := io.ReadFull(near, line)
		near.Close()
		far.Close()
		<-done
		return err == nil && string(line) == "pong\n" // else it does not listen yet
	})
}

func testRotation(t *testing.T, n *node) {
	p := n.pod(t, nil)
	cfg := p.config("i=0; while [ $i -lt 200 ]; do echo line $i; i=$((i+1)); done")
	cfg.LogMaxBytes, cfg.LogMaxFiles = 2000, 3
	if got := p.output(cfg); !strings.HasSuffix(got, "line 199\n") {
		t.Errorf("the newest log ends in %q", got)
	}
	files, err := filepath.Glob(cfg.LogPath + "*")
	if err != nil || len(files) != 3 {
		t.Errorf("log files %v, want 3", files)
	}
}

func testBackground(t *testing.T, n *node) {
	p := n.pod(t, nil)
	id := p.start(p.config("sleep 600"))
	start := time.Now()
	var out bytes.Buffer
	code, err := n.runtime.Exec(t.Context(), id, runtime.ExecConfig{
		Args: []string{"/bin/sh", "-c", "echo x; sleep 300 & exit 4"}, IO: runtime.IO{Stdout: &out},
	})
	if err != nil || code != 4 || out.String() != "x\n" {
		t.Errorf("Exec = %d, %v, output %q", code, err, out.String())
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
}

func testLastOutput(t *testing.T, n *node) {
	p := n.pod(t, nil)
	cfg := p.config("seq 1 8000")
	p.ended(p.start(cfg))
	if got := logged(t, cfg.LogPath); !strings.HasSuffix(got, "\n8000\n") {
		t.Errorf("at the exit the log ends in %q", got[max(0, len(got)-30):])
	}
}

func testStartTwice(t *testing.T, n *node) {
	p := n.pod(t, nil)
	id := p.start(p.config("true"))
	p.ended(id)
	if err := n.runtime.StartContainer(t.Context(), id); !errors.Is(err, runtime.ErrNotRunning) {
		t.Errorf("a second start: %v", err)
	}
}

func testNoImage(t *testing.T, n *node) {
	p := n.pod(t, nil)
	cfg := p.config("true")
	cfg.Image = "sha256:" + strings.Repeat("0", 64)
	if _, err := n.runtime.CreateContainer(t.Context(), p.id, cfg); !errors.Is(err, runtime.ErrNotFound) {
		t.Errorf("CreateContainer: %v, want ErrNotFound", err)
	}
}

func testNoUser(t *testing.T, n *node) {
	p := n.pod(t, nil)
	cfg := p.config("true")
	cfg.Security.Username = "nosuchuser"
	if _, err := n.runtime.CreateContainer(t.Context(), p.id, cfg); err == nil || !strings.Contains(err.Error(), `user "nosuchuser"`) {
		t.Errorf("CreateContainer: %v, want the user's name", err)
	}
}

func testFailedSandbox(t *testing.T, n *node) {
	before, err := n.runtime.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = n.runtime.RunSandbox(t.Context(), runtime.SandboxConfig{
		Pod: runtime.PodMeta{Namespace: "default", Name: "p", UID: "uid-failed"}, CgroupParent: "/berth-test/podfailed",
		NetNS: filepath.Join(t.TempDir(), "absent"),
	})
	if err == nil || strings.Contains(err.Error(), "shared memory") {
		t.Errorf("RunSandbox: %v, want what is wrong with the network namespace, and nothing else", err)
	}
	after, err := n.runtime.List(t.Context())
	if err != nil || len(after.Sandboxes) != len(before.Sandboxes) {
		t.Errorf("sandboxes %+v, %v, want %d", after.Sandboxes, err, len(before.Sandboxes))
	}
}
