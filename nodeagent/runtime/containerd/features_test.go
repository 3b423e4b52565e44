package containerd_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/host/polltest"
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
