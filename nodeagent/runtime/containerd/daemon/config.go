package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// unused plugins of containerd: Berth is the node agent itself, so there is no
// CRI; the rest only costs start-up time or looks outside root and state.
var unused = []string{
	"io.containerd.grpc.v1.cri",
	"io.containerd.cri.v1.images",
	"io.containerd.cri.v1.runtime",
	"io.containerd.nri.v1.nri",
	"io.containerd.internal.v1.tracing",
	"io.containerd.internal.v1.restart",
	"io.containerd.monitor.container.v1.restart",
	"io.containerd.image-verifier.v1.bindir",
	"io.containerd.snapshotter.v1.blockfile",
	"io.containerd.snapshotter.v1.btrfs",
	"io.containerd.snapshotter.v1.devmapper",
	"io.containerd.snapshotter.v1.erofs",
	"io.containerd.snapshotter.v1.zfs",
	"io.containerd.snapshotter.v1.aufs",
}

// settings gives the configuration in the oldest form that every containerd
// from 1.6 on reads.
func settings(cfg Config) string {
	var b strings.Builder
	fmt.Fprintf(&b, "version = 2\nroot = %q\nstate = %q\n", filepath.Join(cfg.Root, "root"), filepath.Join(cfg.State, "state"))
	b.WriteString("disabled_plugins = [\n")
	for _, id := range unused {
		fmt.Fprintf(&b, "  %q,\n", id)
	}
	b.WriteString("]\n")
	fmt.Fprintf(&b, "[grpc]\n  address = %q\n", cfg.Address())
	fmt.Fprintf(&b, "[ttrpc]\n  address = %q\n", cfg.Address()+".ttrpc")
	fmt.Fprintf(&b, "[plugins.\"io.containerd.shim.v1.manager\"]\n  socket_dir = %q\n", filepath.Join(cfg.State, "s"))
	fmt.Fprintf(&b, "[plugins.\"io.containerd.internal.v1.opt\"]\n  path = %q\n", filepath.Join(cfg.Root, "opt"))
	return b.String()
}

// longestState leaves room in a unix socket's address (108 bytes) for what
// containerd appends for each shim: /s/ and a hash.
const longestState = 108 - 1 - len("/s/") - 64

func (cfg Config) prepare() (string, error) {
	if n := len(cfg.State); n > longestState {
		return "", fmt.Errorf("the state folder %s is %d bytes long, sockets in it allow %d: choose a shorter one, such as /run/berth", cfg.State, n, longestState)
	}
	for _, dir := range []string{cfg.Root, cfg.State, filepath.Join(cfg.State, "s")} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return "", fmt.Errorf("prepare containerd: %w", err)
		}
	}
	path := filepath.Join(cfg.State, "config.toml")
	if err := os.WriteFile(path, []byte(settings(cfg)), 0o600); err != nil {
		return "", fmt.Errorf("prepare containerd: %w", err)
	}
	return path, nil
}
