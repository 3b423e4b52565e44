package containerd_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/berth-dev/berth/nodeagent/runtime"
)

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
