package containerd_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/nodeagent/network/netnstest"
	"github.com/berth-dev/berth/nodeagent/runtime"
)

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
