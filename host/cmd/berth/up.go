package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-dev/berth/host"
	"github.com/berth-dev/berth/host/api/flowcontrol"
	"github.com/berth-dev/berth/host/network/balancer"
	"github.com/berth-dev/berth/nodeagent/simulate"
)

const defaultPodCIDR = "10.85.0.0/16"

type upFlags struct {
	hostFlags
	agent        agentFlags
	kind         string
	simulate     int
	simulateNode string
}

func newUp() *cobra.Command {
	var f upFlags
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run host and node agent on this machine",
		Long: "Runs everything on this machine: API, store, scheduler, controllers and a node agent with its\n" +
			"own containerd. Containers go on running when it stops, unless --stop-pods is given.",
		Example: "  berth up\n  berth up --agent none --simulate 100\n  berth up --config /etc/berth/berth.yaml",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.hostFlags.add(cmd)
	f.agent.addLocal(cmd)
	addIngressFlag(cmd, &f.ingress, "answer for Ingresses of the class berth, which is made, on this machine's ports")
	addConfigFlag(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.kind, "agent", "containerd", "node agent of this machine: containerd or none")
	flags.IntVar(&f.simulate, "simulate", 0, "register this many simulated nodes, whose pods are reported Running without containers")
	flags.StringVar(&f.simulateNode, "simulate-node", "cpu=16,memory=64Gi,pods=110", "shape of a simulated node; with zones=3 they are spread over three")
	return cmd
}

func (f *upFlags) run(cmd *cobra.Command) error {
	began := time.Now()
	if f.kind != "containerd" && f.kind != "none" {
		return fmt.Errorf("--agent %q: use containerd or none", f.kind)
	}
	if f.simulate < 0 {
		return fmt.Errorf("--simulate %d: want a number of nodes, 0 for none", f.simulate)
	}
	if err := f.forNoAgent(cmd.Flags()); err != nil {
		return err
	}
	shape, err := simulate.ParseShape(f.simulateNode)
	if err != nil {
		return fmt.Errorf("--simulate-node: %w", err)
	}
	cfg, err := f.config(cmd)
	if err != nil {
		return err
	}
	f.agent.ingress.on = f.ingress
	if f.kind == "containerd" {
		if err := f.agent.check(); err != nil {
			return err
		}
	}
	// The host ends last: the agent tells it how its pods ended.
	all, ctx := errgroup.WithContext(cmd.Context())
	serve, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	serving := make(chan host.Serving, 1)
	all.Go(func() error { return host.Run(serve, cfg, func(s host.Serving) { serving <- s }) })
	all.Go(func() error {
		defer end()
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() error {
			select {
			case s := <-serving:
				if err := f.follow(ctx, cmd, group, cfg, s, shape, began); err != nil {
					return err
				}
				<-ctx.Done()
			case <-ctx.Done():
			}
			return nil
		})
		return group.Wait()
	})
	return ended(all.Wait())
}

// forNoAgent refuses flags of an agent that is not started.
func (f *upFlags) forNoAgent(flags *pflag.FlagSet) (err error) {
	if f.kind != "none" {
		return nil
	}
	agents := &cobra.Command{}
	new(agentFlags).addLocal(agents)
	flags.Visit(func(flag *pflag.Flag) {
		if err == nil && agents.Flags().Lookup(flag.Name) != nil {
			err = fmt.Errorf("--%s is of this machine's agent, and --agent none starts none: leave one of them out", flag.Name)
		}
	})
	return err
}

// follow starts what needs a serving host, and tells the user.
func (f *upFlags) follow(ctx context.Context, cmd *cobra.Command, group *errgroup.Group, cfg host.Config, s host.Serving, shape simulate.Shape, began time.Time) error {
	if f.simulate > 0 {
		rest, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
		if err != nil {
			return err
		}
		registered := make(chan struct{})
		group.Go(func() error {
			return simulate.Run(ctx, simulate.Config{
				REST: rest, N: f.simulate, Shape: shape, Log: cfg.Log,
				Registered: func() { close(registered) },
			})
		})
		select {
		case <-registered:
		case <-ctx.Done():
			return nil
		}
	}
	if f.kind == "containerd" {
		up := make(chan struct{})
		group.Go(func() error { return f.agent.runBeside(ctx, cfg, s, func() { close(up) }) })
		select {
		case <-up:
		case <-ctx.Done():
			return nil
		}
	}
	f.tell(cmd.OutOrStdout(), s, began)
	return nil
}

func (f *upFlags) tell(w io.Writer, s host.Serving, began time.Time) {
	fmt.Fprintf(w, "\n  export KUBECONFIG=%s\n\n", s.Kubeconfig)
	if f.simulate > 0 {
		fmt.Fprintf(w, "%d simulated nodes (%s)\ntheir pods are reported Running, no container runs\n", f.simulate, f.simulateNode)
	}
	fmt.Fprintf(w, "ready in %.2fs, API at %s\n", time.Since(began).Seconds(), s.URL)
}

// ended turns the end that the user asked for into success.
func ended(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// hostFlags are what `up` and `host` share.
type hostFlags struct {
	dataDir, listen string
	advertise       []string
	podCIDR         string
	serviceCIDR     string
	auditLog        string
	trustedKeys     string
	record          string
	logMemory       int
	guestMemory     int64
	maxStreams      int
	logLevel        string
	nodeGrace       time.Duration
	endedPods       int
	ingress         bool
	loadBalancers   string
}

func (f *hostFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.dataDir, "data-dir", defaultDataDir(), "where the host keeps its state")
	flags.StringVar(&f.listen, "listen", "127.0.0.1:6443", "address of the API")
	flags.StringSliceVar(&f.advertise, "advertise", nil, "further names and addresses under which clients reach the API")
	flags.StringVar(&f.podCIDR, "pod-cidr", defaultPodCIDR, "range of the pod network; each node gets a part of it")
	flags.StringVar(&f.serviceCIDR, "service-cidr", "10.96.0.0/16", "range of services' addresses; two, one of each family and parted by a comma, make services of both")
	flags.StringVar(&f.loadBalancers, "load-balancers", "nodes", "where Services of type LoadBalancer get addresses from: nodes, which answer at their own; pools parted by commas (192.0.2.10-192.0.2.20, 2001:db8::100/120), whose addresses nodes announce; or none")
	flags.DurationVar(&f.nodeGrace, "node-monitor-grace-period", 40*time.Second, "how long a node may leave its Lease unrenewed before it is Unknown and its pods go after their tolerationSeconds")
	flags.IntVar(&f.endedPods, "terminated-pod-gc-threshold", 12_500, "how many pods that have ended are kept; beyond it the oldest are deleted; 0 keeps all")
	flags.StringVar(&f.auditLog, "audit-log", "", "file for the audit log, put aside at 100 MiB; of those files the newest ten stay. Empty for none")
	flags.StringVar(&f.record, "record", "", "directory that keeps all states, decisions and questions to controllers, for berth replay; empty for those of the log in memory")
	flags.IntVar(&f.maxStreams, "max-streams", flowcontrol.MaxStreams, "watches and streams that one client may have open")
	flags.IntVar(&f.logMemory, "log-memory", 256, "MiB that the log of states and decisions may take in memory, as far back as berth replay and explain reach without --record")
	flags.Int64Var(&f.guestMemory, "guest-memory", 0, "MiB that the guests of all policies may have together; 0 is a quarter of the memory of this machine or cgroup. The built-in policies come first")
	flags.StringVar(&f.trustedKeys, "trusted-keys", "", "directory of ed25519 public keys; if given, modules must be signed by one of them")
	flags.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
}

func (f *hostFlags) config(cmd *cobra.Command) (host.Config, error) {
	dir, err := filepath.Abs(f.dataDir)
	if err != nil {
		return host.Config{}, err
	}
	log, err := newLogger(cmd.ErrOrStderr(), f.logLevel)
	if err != nil {
		return host.Config{}, err
	}
	if _, err := balancer.Parse(f.loadBalancers); err != nil {
		return host.Config{}, fmt.Errorf("--load-balancers: %w", err)
	}
	if f.nodeGrace < time.Second {
		return host.Config{}, fmt.Errorf("--node-monitor-grace-period %s: want a second at least", f.nodeGrace)
	}
	if f.endedPods < 0 {
		return host.Config{}, fmt.Errorf("--terminated-pod-gc-threshold %d: want 0, which keeps all, or more", f.endedPods)
	}
	if f.logMemory < 1 || f.logMemory > 1<<20 {
		return host.Config{}, fmt.Errorf("--log-memory %d: want 1 to 1048576 MiB", f.logMemory)
	}
	if least := int64(host.LeastGuestMemory >> 20); f.guestMemory != 0 && (f.guestMemory < least || f.guestMemory > 1<<30) {
		return host.Config{}, fmt.Errorf("--guest-memory %d: want %d MiB at least, which the built-in policies may need, or 0 for a quarter of the machine's", f.guestMemory, least)
	}
	if f.maxStreams < 1 {
		return host.Config{}, fmt.Errorf("--max-streams %d: want one at least", f.maxStreams)
	}
	return host.Config{
		DataDir: dir, Listen: f.listen, Advertise: f.advertise, PodCIDR: f.podCIDR, ServiceCIDR: f.serviceCIDR, NodeGrace: f.nodeGrace, EndedPods: f.endedPods, Ingress: f.ingress, LoadBalancers: f.loadBalancers,
		AuditLog: f.auditLog, TrustedKeys: f.trustedKeys, Record: f.record, LogBytes: f.logMemory << 20, GuestMemory: f.guestMemory << 20, MaxStreams: f.maxStreams, Log: log, Version: version,
	}, nil
}

func newLogger(w io.Writer, level string) (*slog.Logger, error) {
	l, err := levelOf("--log-level", level)
	if err != nil {
		return nil, err
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: l})), nil
}

func newHost() *cobra.Command {
	var f hostFlags
	cmd := &cobra.Command{
		Use:   "host",
		Short: "Run the host alone; node agents join from other machines",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			began := time.Now()
			cfg, err := f.config(cmd)
			if err != nil {
				return err
			}
			return ended(host.Run(cmd.Context(), cfg, func(s host.Serving) {
				(&upFlags{}).tell(cmd.OutOrStdout(), s, began)
			}))
		},
	}
	f.add(cmd)
	addIngressFlag(cmd, &f.ingress, "make the class berth of Ingresses, for which machines answer whose agents have this flag, too")
	addConfigFlag(cmd)
	return cmd
}

// hostname is the default name of this machine's node.
func hostname() string {
	name, err := os.Hostname()
	if err != nil || nodeName(name) == "" {
		return "node"
	}
	return nodeName(name)
}

func levelOf(flag, name string) (level slog.Level, err error) {
	if err := level.UnmarshalText([]byte(name)); err != nil {
		return 0, fmt.Errorf("%s %q: use debug, info, warn or error", flag, name)
	}
	return level, nil
}
