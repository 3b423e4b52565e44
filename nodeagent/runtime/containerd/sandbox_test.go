package containerd_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-dev/berth/nodeagent/runtime"
)

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
