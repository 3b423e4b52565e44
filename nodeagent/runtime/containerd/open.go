package containerd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	client "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/containerd/v2/plugins"

	"github.com/berth-dev/berth/nodeagent/keyed"
	"github.com/berth-dev/berth/nodeagent/runtime/containerd/daemon"
	"github.com/berth-dev/berth/nodeagent/runtime/containerd/keeper"
	"github.com/berth-dev/berth/nodeagent/runtime/containerd/pause"
	"github.com/berth-dev/berth/nodeagent/tool"
)

// Namespace separates Berth's containers from others in one containerd.
const Namespace = "berth"

// Config says where things lie.
type Config struct {
	// Root keeps images and metadata. State holds sockets, pipes and mounts,
	// and is best on a tmpfs; its path must be short.
	Root, State string
	// Address of a containerd that runs already; empty: one is started.
	Address string
	// Handlers are the runtimes that pods may have besides runc, by the names that
	// RuntimeClasses give them: each a program that is used as runc is, by its path, or
	// one of containerd's by its name, such as io.containerd.kata.v2.
	Handlers map[string]string
	// Bin is searched for programs before PATH.
	Bin []string
	Log *slog.Logger
}

// Runtime is a runtime.Runtime. It is large because that is: a method a call, each with
// what it makes of containerd's.
type Runtime struct {
	cfg         Config
	client      *client.Client
	daemon      *daemon.Daemon // nil: somebody else's containerd
	keeper      *keeper.Client
	runc        string
	snapshotter string
	features    featureSet
	log         *slog.Logger
	settling    keyed.Locks
	mounting    keyed.Locks
	watchers    watchers

	stop context.CancelFunc
	done sync.WaitGroup
}

// Open starts containerd, unless one is named, and what else containers need,
// and takes up those that run already.
func Open(ctx context.Context, cfg Config) (*Runtime, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("containers need root: run as root, or without containers (--agent none)")
	}
	programs, err := tool.FindAll(needed(cfg), cfg.Bin...)
	if err != nil {
		return nil, err
	}
	for name, of := range cfg.Handlers {
		if !filepath.IsAbs(of) {
			continue // containerd finds it
		}
		if _, err := exec.LookPath(of); err != nil {
			return nil, fmt.Errorf("runtime handler %s: %w", name, err)
		}
	}
	for _, dir := range []string{cfg.Root, cfg.State} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return nil, fmt.Errorf("open containerd: %w", err)
		}
	}
	r := &Runtime{cfg: cfg, runc: programs["runc"], log: cfg.Log}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	r.stop = stop
	if err := r.open(ctx, run, programs); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// needed names the programs of the machine that will be run.
func needed(cfg Config) []string {
	if cfg.Address != "" {
		return []string{"runc"}
	}
	return []string{"containerd", "containerd-shim-runc-v2", "runc"}
}

func (r *Runtime) open(ctx, run context.Context, programs map[string]string) error {
	if err := pause.Install(r.pauseRoot()); err != nil {
		return err
	}
	address := r.cfg.Address
	if address == "" {
		var err error
		r.daemon, err = daemon.Start(ctx, daemon.Config{
			Root: r.cfg.Root, State: r.cfg.State, Containerd: programs["containerd"], Log: r.log,
			Path: []string{filepath.Dir(programs["containerd-shim-runc-v2"]), filepath.Dir(programs["runc"])},
		})
		if err != nil {
			return err
		}
		address = r.daemon.Address()
	}
	var err error
	if r.client, r.snapshotter, err = Connect(ctx, address, r.log); err != nil {
		return err
	}
	if r.features, err = featuresOf(ctx, r.runc); err != nil {
		r.log.Warn("no user namespaces for pods, and no mounts that are read-only recursively", "err", err)
	}
	if err := r.holdStreams(run); err != nil {
		return err
	}
	r.watch(run)
	return r.resync(r.with(ctx))
}

// Connect reaches a containerd and chooses where images are unpacked: by
// overlayfs where the kernel and the disk permit it.
func Connect(ctx context.Context, address string, log *slog.Logger) (c *client.Client, snapshotter string, err error) {
	if c, err = client.New(address, client.WithDefaultNamespace(Namespace)); err != nil {
		return nil, "", fmt.Errorf("connect to containerd at %s: %w", address, err)
	}
	ctx, cancel := context.WithTimeout(namespaces.WithNamespace(ctx, Namespace), 20*time.Second)
	defer cancel()
	list, err := c.IntrospectionService().Plugins(ctx, "type=="+string(plugins.SnapshotPlugin))
	if err != nil {
		return nil, "", errors.Join(fmt.Errorf("containerd at %s does not answer: %w", address, err), c.Close())
	}
	for _, p := range list.GetPlugins() {
		if p.GetID() == "overlayfs" && p.GetInitErr() == nil {
			return c, "overlayfs", nil
		}
	}
	log.Warn("no overlayfs on this disk: images are copied for each container")
	return c, "native", nil
}

// Client is the connection to containerd, for the images beside the containers.
func (r *Runtime) Client() *client.Client { return r.client }

// Snapshotter is the one into which images must be unpacked.
func (r *Runtime) Snapshotter() string { return r.snapshotter }

// Close ends containerd, if it is the agent's own. Containers go on.
func (r *Runtime) Close() error {
	r.stop()
	r.done.Wait()
	var errs []error
	if r.client != nil {
		errs = append(errs, r.client.Close())
	}
	if r.daemon != nil {
		errs = append(errs, r.daemon.Close())
	}
	return errors.Join(errs...)
}

// with puts containerd's namespace into a context.
func (r *Runtime) with(ctx context.Context) context.Context {
	return namespaces.WithNamespace(ctx, Namespace)
}

func (r *Runtime) pauseRoot() string         { return filepath.Join(r.cfg.Root, "pause") }
func (r *Runtime) pipes(id string) string    { return filepath.Join(r.cfg.State, "io", id) }
func (r *Runtime) shm(sandbox string) string { return filepath.Join(r.cfg.State, "shm", sandbox) }

// imageDir outlives a reboot, as the snapshots do that are named by it.
func (r *Runtime) imageDir(sandbox string) string {
	return filepath.Join(r.cfg.Root, "mounted", sandbox)
}

func (r *Runtime) keeperSocket() string { return filepath.Join(r.cfg.State, "streams.sock") }

// holdStreams has a keeper of streams, now and whenever one ends.
func (r *Runtime) holdStreams(ctx context.Context) error {
	r.keeper = keeper.At(r.keeperSocket())
	gone, release, err := keeper.Ensure(ctx, r.keeperSocket(), r.log)
	if err != nil {
		return err
	}
	r.done.Go(func() {
		for {
			select {
			case <-ctx.Done():
				release()
				return
			case <-gone:
			}
			release()
			r.log.Warn("the stream keeper ended: starting another")
			for {
				if gone, release, err = keeper.Ensure(ctx, r.keeperSocket(), r.log); err == nil {
					break
				}
				select {
				case <-ctx.Done():
					return
				case <-time.After(time.Second):
				}
			}
			if err := r.resync(r.with(ctx)); err != nil {
				r.log.Warn("take up streams again", "err", err)
			}
		}
	})
	return nil
}
