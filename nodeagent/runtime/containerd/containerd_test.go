package containerd_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/host/polltest"
	"github.com/berth-dev/berth/nodeagent/cgroup"
	"github.com/berth-dev/berth/nodeagent/image/containerd"
	"github.com/berth-dev/berth/nodeagent/image/testimage"
	"github.com/berth-dev/berth/nodeagent/runtime"
	runtimecontainerd "github.com/berth-dev/berth/nodeagent/runtime/containerd"
	"github.com/berth-dev/berth/nodeagent/runtime/containerd/keeper"
	"github.com/berth-dev/berth/nodeagent/runtime/runtimetest"
	"github.com/berth-dev/berth/nodeagent/tool"
)

func TestMain(m *testing.M) {
	keeper.Main()
	os.Exit(m.Run())
}

// node is a runtime with folders of its own, and the busybox image.
type node struct {
	cfg     runtimecontainerd.Config
	runtime *runtimecontainerd.Runtime
	image   string
}

func newNode(t *testing.T) *node {
	t.Helper()
	needRoot(t)
	state, err := os.MkdirTemp("/run", "berth-")
	if err != nil {
		t.Fatal(err)
	}
	n := &node{cfg: runtimecontainerd.Config{Root: t.TempDir(), State: state, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}}
	t.Cleanup(func() { n.cleanUp(t) })
	n.open(t)
	img, err := testimage.Busybox()
	if err != nil {
		t.Fatal(err)
	}
	archive, err := testimage.Archive("berth.test/busybox:1", img)
	if err != nil {
		t.Fatal(err)
	}
	store := containerd.New(containerd.Config{
		Client: n.runtime.Client(), Snapshotter: n.runtime.Snapshotter(), Root: n.cfg.Root, Log: n.cfg.Log,
	})
	imgs, err := store.Import(t.Context(), archive)
	if err != nil {
		t.Fatal(err)
	}
	n.image = imgs[0].ID
	return n
}

// needRoot skips where containers can not run; in CI they must.
func needRoot(t *testing.T) {
	t.Helper()
	var missing string
	if os.Geteuid() != 0 {
		missing = "containers need root"
	} else if _, err := tool.FindAll([]string{"containerd", "containerd-shim-runc-v2", "runc"}); err != nil {
		missing = err.Error()
	}
	if missing == "" {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatal(missing)
	}
	t.Skip(missing)
}

func (n *node) open(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := runtimecontainerd.Open(ctx, n.cfg)
	if err != nil {
		t.Fatal(err)
	}
	n.runtime = r
}

// reopen closes the runtime and opens another over the same folders.
func (n *node) reopen(t *testing.T) runtime.Runtime {
	t.Helper()
	if err := n.runtime.Close(); err != nil {
		t.Fatal(err)
	}
	n.open(t)
	return n.runtime
}

// cleanUp removes everything and then looks for what was left behind.
func (n *node) cleanUp(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if n.runtime != nil {
		list, err := n.runtime.List(ctx)
		if err != nil {
			t.Errorf("list what is left: %v", err)
		}
		for _, s := range list.Sandboxes {
			if err := n.runtime.RemoveSandbox(ctx, s.ID); err != nil {
				t.Errorf("remove sandbox: %v", err)
			}
		}
		if err := n.runtime.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	if tree, err := cgroup.Open("/sys/fs/cgroup"); err != nil {
		t.Error(err)
	} else if err := tree.Remove("/berth-test"); err != nil { // where all tests put their pods
		t.Error(err)
	}
	if left := processesOf(n.cfg.State, "containerd"); len(left) > 0 {
		t.Errorf("processes are left: %q", left)
	}
	mounts, _ := os.ReadFile("/proc/self/mounts")
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, n.cfg.State) || strings.Contains(line, n.cfg.Root) {
			t.Errorf("a mount is left: %s", line)
		}
	}
	if err := os.RemoveAll(n.cfg.State); err != nil {
		t.Errorf("remove state: %v", err)
	}
}

// processesOf finds command lines that name a folder. Shims end a moment after
// their last task, so it looks for a while.
func processesOf(folder, program string) []string {
	var found []string
	polltest.Within(5*time.Second, func() bool {
		found = nil
		cmdlines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, path := range cmdlines {
			b, _ := os.ReadFile(path)
			line := strings.ReplaceAll(string(b), "\x00", " ")
			if strings.Contains(line, program) && strings.Contains(line, folder) {
				found = append(found, line)
			}
		}
		return len(found) == 0
	})
	return found
}

func TestConformance(t *testing.T) {
	n := newNode(t)
	runtimetest.Run(t, func(*testing.T) runtimetest.Fixture {
		return runtimetest.Fixture{Runtime: n.runtime, Image: n.image, Restart: n.reopen}
	})
}
