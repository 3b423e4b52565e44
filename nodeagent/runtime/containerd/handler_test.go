package containerd_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-dev/berth/nodeagent/runtime"
	runtimecontainerd "github.com/berth-dev/berth/nodeagent/runtime/containerd"
	"github.com/berth-dev/berth/nodeagent/tool"
)

// testHandler runs a pod by a program that notes what it is asked and has runc do it.
func testHandler(t *testing.T, n *node) {
	programs, err := tool.FindAll([]string{"runc"})
	if err != nil {
		t.Fatal(err)
	}
	notes, program := filepath.Join(t.TempDir(), "notes"), filepath.Join(t.TempDir(), "noting")
	script := fmt.Sprintf("#!/bin/sh\necho \"$@\" >>%s\nexec %s \"$@\"\n", notes, programs["runc"])
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	n.cfg.Handlers = map[string]string{"noting": program, "kata": "io.containerd.kata.v2"}
	n.reopen(t)
	defer func() { // while the test's context lasts
		n.cfg.Handlers = nil
		n.reopen(t)
	}()
	version, err := n.runtime.Version(t.Context())
	if want := []string{"kata", "noting"}; err != nil || !slices.Equal(version.Handlers, want) {
		t.Errorf("the runtime has the handlers %q, %v, want %q", version.Handlers, err, want)
	}
	p := n.pod(t, func(cfg *runtime.SandboxConfig) { cfg.Handler = "noting" })
	if got := p.output(p.config("echo hi")); got != "hi\n" {
		t.Errorf("the container says %q", got)
	}
	id := p.start(p.config("sleep 600"))
	n.reopen(t) // what runs is taken up with its own runtime
	if err := n.runtime.StopContainer(t.Context(), id, 0); err != nil {
		t.Error(err)
	}
	p.ended(id)
	noted, err := os.ReadFile(notes)
	if err != nil {
		t.Fatal(err)
	}
	if created := strings.Count(string(noted), " create "); created != 3 || !strings.Contains(string(noted), " kill ") {
		t.Errorf("the program was asked to create %d times, want 3, and to kill:\n%s", created, noted)
	}
	// Without its handler nothing of the pod may begin, least of all by runc.
	n.cfg.Handlers = nil
	n.reopen(t)
	if _, err := n.runtime.CreateContainer(t.Context(), p.id, p.config("true")); err == nil || !strings.Contains(err.Error(), `no runtime handler "noting" on this node; it has runc`) {
		t.Errorf("a container of a pod whose handler is gone: %v", err)
	}
	n.cfg.Handlers = map[string]string{"noting": program, "kata": "io.containerd.kata.v2"}
	n.reopen(t)
	_, err = n.runtime.RunSandbox(t.Context(), runtime.SandboxConfig{Pod: runtime.PodMeta{UID: "x"}, CgroupParent: "/berth-test/podx", Handler: "gvisor"})
	if err == nil || !strings.Contains(err.Error(), `no runtime handler "gvisor" on this node; it has kata, noting, runc`) {
		t.Errorf("a handler that is not there: %v", err)
	}
	cfg := n.cfg
	cfg.Handlers = map[string]string{"gone": filepath.Join(t.TempDir(), "gone")}
	if r, err := runtimecontainerd.Open(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "runtime handler gone: ") {
		t.Errorf("a program that is not there: %v", err)
		if err == nil {
			_ = r.Close()
		}
	}
}
