// Package machine opens what a real machine offers to the node agent:
// containerd and runc, the CNI network, images, cgroups and mounts.
//
// A program that opens one calls Main first thing in its main function.
package machine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"time"

	"github.com/containerd/log"

	"github.com/berth-dev/berth/nodeagent"
	"github.com/berth-dev/berth/nodeagent/cgroup"
	imagecontainerd "github.com/berth-dev/berth/nodeagent/image/containerd"
	"github.com/berth-dev/berth/nodeagent/network"
	"github.com/berth-dev/berth/nodeagent/network/cni"
	"github.com/berth-dev/berth/nodeagent/runtime/containerd"
	"github.com/berth-dev/berth/nodeagent/runtime/containerd/keeper"
	"github.com/berth-dev/berth/nodeagent/volume"
)

// Config says where things lie.
type Config struct {
	// Root keeps images and containers over reboots.
	Root string
	// State is for sockets, pipes and namespaces, and its path must be short;
	// empty: a folder in /run/berth that is Root's own.
	State string
	// ContainerdAddress is the socket of a containerd that runs already; empty:
	// one is started.
	ContainerdAddress string
	// Handlers are pods' other runtimes: runtime/containerd has them.
	Handlers map[string]string
	// PodRanges are this node's, ClusterRanges all nodes' (empty: PodRanges).
	PodRanges, ClusterRanges []netip.Prefix
	// Names are addresses at which the agent answers DNS.
	Names []netip.Addr
	// Bridge is the name of the pods' bridge; empty: berth0.
	Bridge string
	// CNIConfDir is where the user's own CNI has its configuration; empty: pods are
	// connected by the bridge.
	CNIConfDir string
	// HostsDir and Stalled are of registries: image/containerd has them.
	HostsDir string
	Stalled  time.Duration
	// Bin is searched for programs before PATH.
	Bin []string
	Log *slog.Logger
}

// Machine is open.
type Machine struct {
	Runtime *containerd.Runtime
	Network *cni.Network
	Images  *imagecontainerd.Store
	Cgroups *cgroup.Tree
	// CgroupRoot is above the cgroups of all pods of this root: machines for
	// tests, and agents, can be several on one kernel.
	CgroupRoot string
	root       string
}

// Main serves, and exits, if this process was started to keep containers'
// streams; otherwise it returns.
func Main() {
	// containerd's client logs what it returns as errors, too, past Config.Log.
	_ = log.SetLevel(log.FatalLevel) // fails for levels that there are not
	keeper.Main()
}

// Open opens a machine. Errors are a line that says what is missing and what
// to do.
func Open(ctx context.Context, cfg Config) (*Machine, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	own, err := nameOf(cfg.Root)
	if err != nil {
		return nil, err
	}
	if cfg.State == "" {
		if cfg.State, err = stateOf(cfg.Root); err != nil {
			return nil, err
		}
	}
	m := &Machine{root: cfg.Root, CgroupRoot: "/berth/" + own}
	if m.Cgroups, err = cgroup.Open("/sys/fs/cgroup"); err != nil {
		return nil, err
	}
	// Before containerd, which takes longer to find something amiss.
	m.Network, err = cni.Open(ctx, cni.Config{
		PodRanges: cfg.PodRanges, ClusterRanges: cfg.ClusterRanges, Names: cfg.Names, Bridge: cfg.Bridge,
		State: filepath.Join(cfg.State, "net"), ConfDir: cfg.CNIConfDir, Bin: cfg.Bin, Log: cfg.Log,
	})
	if err != nil {
		return nil, err
	}
	m.Runtime, err = containerd.Open(ctx, containerd.Config{
		Root: filepath.Join(cfg.Root, "containerd"), State: cfg.State, Address: cfg.ContainerdAddress, Handlers: cfg.Handlers, Bin: cfg.Bin, Log: cfg.Log,
	})
	if err != nil {
		return nil, err
	}
	m.Images = imagecontainerd.New(imagecontainerd.Config{
		Client: m.Runtime.Client(), Snapshotter: m.Runtime.Snapshotter(), Root: cfg.Root, HostsDir: cfg.HostsDir, Stalled: cfg.Stalled, Log: cfg.Log,
	})
	return m, nil
}

// stateOf gives each root a folder of its own with a short path.
func stateOf(root string) (string, error) {
	own, err := nameOf(root)
	return filepath.Join("/run/berth", own), err
}

// nameOf gives each root a short name of its own.
func nameOf(root string) (string, error) {
	abs, err := filepath.Abs(root)
	if err != nil {
		return "", fmt.Errorf("find the root folder: %w", err)
	}
	sum := sha256.Sum256([]byte(abs))
	return hex.EncodeToString(sum[:4]), nil
}

// Equip puts the machine into an agent's configuration.
func (m *Machine) Equip(cfg *nodeagent.Config) {
	cfg.Runtime, cfg.Network, cfg.Images = m.Runtime, m.Network, m.Images
	if k := m.Network.Forward(); k != nil {
		cfg.Forward, cfg.Isolate = k, k
	}
	cfg.Cgroups, cfg.CgroupRoot, cfg.Mounter = m.Cgroups, m.CgroupRoot, volume.Kernel{}
}

// RemovePods ends and removes all pods, with their networks and mounts. It is for
// `--stop-pods`, after the agent ended.
func (m *Machine) RemovePods(ctx context.Context) error {
	list, err := m.Runtime.List(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, s := range list.Sandboxes {
		errs = append(errs, m.Runtime.RemoveSandbox(ctx, s.ID))
	}
	return errors.Join(append(errs, m.Network.Sweep(ctx, network.Nothing), unmountBelow(filepath.Join(m.root, "pods")), m.Cgroups.Remove(m.CgroupRoot))...)
}

// Close ends containerd. Pods go on.
func (m *Machine) Close() error { return m.Runtime.Close() }
