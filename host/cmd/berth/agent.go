package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-dev/berth/host"
	"github.com/berth-dev/berth/host/policy/build"
	"github.com/berth-dev/berth/nodeagent"
	"github.com/berth-dev/berth/nodeagent/dns"
	"github.com/berth-dev/berth/nodeagent/join"
	"github.com/berth-dev/berth/nodeagent/logind"
	"github.com/berth-dev/berth/nodeagent/machine"
	"github.com/berth-dev/berth/nodeagent/network/cni"
	"github.com/berth-dev/berth/nodeagent/node"
)

// agentFlags are what `up` and `agent` share of a node agent.
type agentFlags struct {
	name, address, root, containerd, bridge string
	cniConfDir                              string
	port                                    int
	clusterCIDR                             string
	images                                  []string
	stopPods                                bool
	grace                                   nodeagent.Grace
	lease                                   time.Duration
	evictionHard                            []string
	imagesHigh, imagesLow                   int
	pressure                                nodeagent.Pressure
	node                                    nodeFlags
	ingress                                 ingressFlags
	registry                                registryFlags
	// reach has a host of the same process serve its API where pods reach it.
	reach func(netip.Addr) error
	// outside finds the address by which others reach this machine, where its node's
	// is that of the pods' bridge.
	outside func(like string) string
}

func (f *agentFlags) addLocal(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.name, "node-name", hostname(), "name of this machine's node")
	flags.StringVar(&f.address, "node-address", "", "address of this machine; by default the one by which it reaches the API, or that of the pods' bridge where that is the loopback")
	flags.IntVar(&f.port, "node-port", 10250, "port on which the agent serves logs, exec and port-forward to the host")
	flags.StringVar(&f.containerd, "containerd-address", "", "socket of a containerd that runs already; by default Berth starts its own")
	flags.StringVar(&f.bridge, "bridge", "", "name of the bridge that pods are connected to; berth0 by default")
	flags.StringVar(&f.cniConfDir, "cni-conf-dir", "", "folder with the configuration of a CNI of your own, which connects pods in place of Berth's bridge and routes (containerd: conf_dir); its plugins are looked for in /opt/cni/bin and /usr/lib/cni")
	flags.StringSliceVar(&f.images, "import-image", nil, "image archive to import at the start; can be given several times")
	flags.DurationVar(&f.lease, "node-lease-duration", 40*time.Second, "how long the node's Lease holds; it is renewed four times in that (kubelet: nodeLeaseDurationSeconds)")
	flags.StringSliceVar(&f.evictionHard, "eviction-hard", nil, "what must be left of the machine's resources, or pods are refused and evicted (kubelet: evictionHard); those left out keep their defaults, 0% is none (default memory.available<100Mi, nodefs.available<10%, nodefs.inodesFree<5%, imagefs.available<15%, imagefs.inodesFree<5%, pid.available<10%)")
	flags.IntVar(&f.imagesHigh, "image-gc-high-threshold", 85, "percentage of the images' disk in use from which on unused images are removed; 100 for never (kubelet: imageGCHighThresholdPercent)")
	flags.IntVar(&f.imagesLow, "image-gc-low-threshold", 80, "percentage of the images' disk in use down to which unused images are removed (kubelet: imageGCLowThresholdPercent)")
	f.node.add(cmd)
	f.ingress.add(cmd)
	f.registry.add(cmd)
	flags.BoolVar(&f.stopPods, "stop-pods", false, "end this machine's pods when stopping, by --shutdown-grace-period")
	flags.DurationVar(&f.grace.Total, "shutdown-grace-period", 30*time.Second, "how long pods may take in all to end by --stop-pods, or when the machine shuts down (kubelet: shutdownGracePeriod)")
	flags.DurationVar(&f.grace.Critical, "shutdown-grace-period-critical-pods", 10*time.Second, "how much of --shutdown-grace-period is kept for pods of priority system-cluster-critical and above, which end last (kubelet: shutdownGracePeriodCriticalPods)")
}

// check finds out before anything is started whether containers can run here.
func (f *agentFlags) check() error {
	if err := f.parse(); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("containers need root: run as root, or try `berth up --agent none --simulate 3` for nodes without containers")
	}
	return nil
}

// parse reads the flags that are more than words.
func (f *agentFlags) parse() error {
	hard, err := nodeagent.ParseThresholds(f.evictionHard)
	if err != nil {
		return fmt.Errorf("--eviction-hard: %w", err)
	}
	if f.imagesHigh < 1 || f.imagesHigh > 100 {
		return fmt.Errorf("--image-gc-high-threshold %d: want 1 to 100", f.imagesHigh)
	}
	if f.imagesLow < 0 || f.imagesLow >= f.imagesHigh {
		return fmt.Errorf("--image-gc-low-threshold %d: want 0 to %d, less than --image-gc-high-threshold", f.imagesLow, f.imagesHigh-1)
	}
	if err := errors.Join(f.node.parse(), f.registry.parse(), f.ingress.parse()); err != nil {
		return err
	}
	f.pressure = nodeagent.Pressure{Hard: hard, ImagesHigh: f.imagesHigh, ImagesLow: f.imagesLow}
	if f.grace.Critical < 0 || f.grace.Critical > f.grace.Total {
		return fmt.Errorf("--shutdown-grace-period-critical-pods %s: want 0s to --shutdown-grace-period, which is %s", f.grace.Critical, f.grace.Total)
	}
	if f.lease < time.Second {
		return fmt.Errorf("--node-lease-duration %s: want a second at least", f.lease)
	}
	if f.port < 1 || f.port > 65535 {
		return fmt.Errorf("--node-port %d: want 1 to 65535", f.port)
	}
	f.name = nodeName(f.name)
	if errs := validation.IsDNS1123Subdomain(f.name); len(errs) > 0 {
		return fmt.Errorf("--node-name %q: %s", f.name, strings.Join(errs, "; "))
	}
	return nil
}

// nodeName makes a node's name of a machine's, as the kubelet does.
func nodeName(machine string) string { return strings.ToLower(strings.TrimSpace(machine)) }

func newAgent() *cobra.Command {
	var f agentFlags
	var server, token, tokenFile, dataDir, level string
	cmd := &cobra.Command{
		Use:     "agent",
		Short:   "Run the node agent of this machine, for a host elsewhere",
		Example: "  berth agent --server https://10.0.0.1:6443 --token-file token --node-name n2",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			token, err := readToken(token, tokenFile, cmd.InOrStdin())
			if err != nil {
				return err
			}
			log, err := newLogger(cmd.ErrOrStderr(), level)
			if err != nil {
				return err
			}
			if dataDir, err = filepath.Abs(dataDir); err != nil {
				return err
			}
			f.root = filepath.Join(dataDir, "agent")
			began := time.Now()
			return ended(f.run(cmd.Context(), server, token, log, func() {
				fmt.Fprintf(cmd.OutOrStdout(), "node %s is ready in %.2fs\n", f.name, time.Since(began).Seconds())
			}))
		},
	}
	f.addLocal(cmd)
	addIngressFlag(cmd, &f.ingress.on, "answer for Ingresses of the class berth on this machine's ports")
	addConfigFlag(cmd)
	flags := cmd.Flags()
	flags.StringVar(&server, "server", "", "URL of the host's API")
	flags.StringVar(&token, "token", "", "token made by berth token create; needed the first time only. Other users of the machine see it: better is --token-file")
	flags.StringVar(&tokenFile, "token-file", "", "file that holds the token; - is standard input")
	flags.StringVar(&dataDir, "data-dir", defaultDataDir(), "where the agent keeps its state")
	flags.StringVar(&f.clusterCIDR, "pod-cidr", defaultPodCIDR, "range of the whole cluster's pod network")
	flags.StringVar(&level, "log-level", "info", "debug, info, warn or error")
	_ = cmd.MarkFlagRequired("server")
	return cmd
}

// runBeside runs the agent next to a host of the same process.
func (f *agentFlags) runBeside(ctx context.Context, cfg host.Config, s host.Serving, ready func()) error {
	token, err := s.NewToken()
	if err != nil {
		return err
	}
	f.root, f.clusterCIDR, f.reach = filepath.Join(cfg.DataDir, "agent"), cfg.PodCIDR, s.Reach
	if err := f.onLoopback(ctx, s); err != nil {
		return err
	}
	return f.run(ctx, s.URL, token, cfg.Log, ready)
}

// onLoopback gives a machine whose API listens at the loopback the address of its
// pods' bridge, unless it has been named one: pods have a loopback of their own.
func (f *agentFlags) onLoopback(ctx context.Context, s host.Serving) error {
	if f.address != "" {
		return nil
	}
	if address, err := f.find(s.URL); err != nil || !address.IsLoopback() {
		return err
	}
	if f.cniConfDir != "" {
		return errors.New("with --cni-conf-dir the API must be where pods of your network reach it: name an address of this machine by --listen, or by --node-address")
	}
	admin, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(admin)
	if err != nil {
		return err
	}
	own, err := f.podRange(ctx, client, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	f.address, f.outside = cni.Gateway(own).String(), node.Outside
	return nil
}

// run joins, opens the machine and runs its pods until ctx ends.
func (f *agentFlags) run(ctx context.Context, server, token string, log *slog.Logger, ready func()) error {
	address, err := f.find(server)
	if err != nil {
		return err
	}
	identity, err := join.Join(ctx, join.Config{
		Server: server, Token: token, NodeName: f.name, Dir: filepath.Join(f.root, "pki"), Log: log,
		Addresses: []net.IP{address.AsSlice()},
	})
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(identity.REST())
	if err != nil {
		return err
	}
	own, err := f.podRange(ctx, client, log)
	if err != nil {
		return err
	}
	if f.reach != nil {
		at := cni.Gateway(own) // the bridge's address
		if f.cniConfDir != "" {
			at = address
		}
		if err := f.reach(at); err != nil {
			return err
		}
	}
	keyring, err := f.registry.keyring(f.root, log)
	if err != nil {
		return err
	}
	answering, err := f.ingress.listen(ctx)
	if err != nil {
		return err
	}
	defer answering.Close()
	names := f.node.answerAt(ctx, client, log)
	m, err := f.open(ctx, own, names, log)
	if err != nil {
		return err
	}
	defer f.close(m, log)
	cfg := f.config(m, identity, address, own, log)
	cfg.Keyring, cfg.Ingress, cfg.Outside = keyring, answering, f.outside
	cfg.AnswerAt = names
	if f.stopPods { // then nobody asks there any more
		defer func() {
			if err := dns.Disclaim(cfg.AnswerAt...); err != nil {
				log.Error("stop pods", "err", err)
			}
		}()
	}
	agent, err := nodeagent.New(cfg)
	if err != nil {
		return err
	}
	// The agent goes on for as long as its pods take to end.
	asked := ctx.Done()
	group, ctx := errgroup.WithContext(context.WithoutCancel(ctx))
	group.Go(func() error { return f.shutdown(ctx, asked, agent, log) })
	group.Go(func() error { return f.machineShutdown(ctx, agent, log) })
	group.Go(func() error { return agent.Run(ctx) })
	group.Go(func() error { return untilDone(ctx, identity.Run(ctx)) })
	group.Go(func() error { return untilDone(ctx, m.FollowPeers(ctx, client, f.name, log)) })
	group.Go(func() error {
		if err := awaitReady(ctx, client, f.name); err != nil {
			return untilDone(ctx, err)
		}
		ready()
		return nil
	})
	return ended(group.Wait())
}

// shutdown waits until the agent is asked to end, and ends the pods if they are to
// be stopped. Its error ends all others.
func (f *agentFlags) shutdown(ctx context.Context, asked <-chan struct{}, agent *nodeagent.Agent, log *slog.Logger) error {
	select {
	case <-asked:
	case <-ctx.Done():
		return nil
	}
	if f.stopPods {
		if err := agent.Shutdown(ctx, f.grace); err != nil {
			log.Error("stop pods", "err", err)
		}
	}
	return context.Canceled
}

// machineShutdown ends the pods before the machine goes down, where systemd-logind
// lets that wait.
func (f *agentFlags) machineShutdown(ctx context.Context, agent *nodeagent.Agent, log *slog.Logger) error {
	if f.grace.Total == 0 {
		return nil
	}
	logged := func(what string, err error) {
		if err != nil {
			log.Error(what, "err", err)
		}
	}
	return logind.Follow(ctx, logind.Config{
		Grace: f.grace.Total, Log: log,
		Down: func(ctx context.Context) {
			logged("end pods before the machine shuts down", agent.Shutdown(ctx, f.grace))
		},
		Up: func(ctx context.Context) { logged("take pods again", agent.Reopen(ctx)) },
	})
}

// untilDone is no error if ctx ended first.
func untilDone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (f *agentFlags) open(ctx context.Context, own netip.Prefix, names []netip.Addr, log *slog.Logger) (*machine.Machine, error) {
	all, err := netip.ParsePrefix(f.clusterCIDR)
	if err != nil {
		return nil, fmt.Errorf("--pod-cidr: %w", err)
	}
	m, err := machine.Open(ctx, machine.Config{
		Root: f.root, ContainerdAddress: f.containerd, Handlers: f.node.handlers, PodRanges: []netip.Prefix{own}, ClusterRanges: []netip.Prefix{all},
		Names: names, Bridge: f.bridge, CNIConfDir: f.cniConfDir, HostsDir: f.registry.hostsDir, Stalled: f.registry.stalled, Bin: []string{filepath.Join(build.ToolsDir(), "bin")}, Log: log,
	})
	if err != nil {
		return nil, err
	}
	for _, file := range f.images {
		if _, err := importFile(ctx, m.Images, file); err != nil {
			return nil, errors.Join(err, m.Close())
		}
	}
	return m, nil
}

// close leaves the pods running, unless they are to be stopped.
func (f *agentFlags) close(m *machine.Machine, log *slog.Logger) {
	if f.stopPods {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := errors.Join(m.RemovePods(ctx), m.Network.Close(ctx)); err != nil {
			log.Error("stop pods", "err", err)
		}
	}
	if err := m.Close(); err != nil {
		log.Error("close containerd", "err", err)
	}
}

func (f *agentFlags) config(m *machine.Machine, id *join.Identity, address netip.Addr, own netip.Prefix, log *slog.Logger) nodeagent.Config {
	cfg := nodeagent.Config{
		REST: id.REST(), NodeName: f.name, RootDir: f.root, Log: log, PodCIDR: own.String(), Address: address.String(),
		ListenAddr:  netip.AddrPortFrom(address, uint16(f.port)).String(),
		Certificate: id.Certificate, ClientCA: id.Authority(), Lease: f.lease, Pressure: f.pressure,
	}
	f.node.into(&cfg)
	if all, err := netip.ParsePrefix(f.clusterCIDR); err == nil {
		cfg.ClusterRanges = []netip.Prefix{all}
	}
	m.Equip(&cfg)
	return cfg
}

// find returns the machine's address: the one that was named, or the one by
// which it reaches the host.
func (f *agentFlags) find(server string) (netip.Addr, error) {
	if f.address != "" {
		a, err := netip.ParseAddr(f.address)
		if err != nil {
			return a, fmt.Errorf("--node-address: %w", err)
		}
		return a, nil
	}
	u, err := url.Parse(server)
	if err != nil || u.Host == "" {
		return netip.Addr{}, fmt.Errorf("--server %q: want https://HOST:PORT", server)
	}
	// UDP sends nothing by connecting: it only finds the way.
	c, err := net.Dial("udp", u.Host)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("find this machine's address: %w: name it by --node-address", err)
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap(), nil
}

// within refuses a range of the cluster's pods that this node's is no part of: what
// goes to pods elsewhere would be masqueraded.
func (f *agentFlags) within(own netip.Prefix) error {
	all, err := netip.ParsePrefix(f.clusterCIDR)
	if err != nil {
		return fmt.Errorf("--pod-cidr: %w", err)
	}
	if own.Bits() < all.Bits() || !all.Contains(own.Addr()) {
		return fmt.Errorf("--pod-cidr %s: this node's range of pod addresses, %s, lies outside: give the agent the host's --pod-cidr", all, own)
	}
	return nil
}

// podRange waits for the host, and for the range of pod addresses that it gives this node.
func (f *agentFlags) podRange(ctx context.Context, client kubernetes.Interface, log *slog.Logger) (netip.Prefix, error) {
	if err := awaitHost(ctx, client, f.name, log); err != nil {
		return netip.Prefix{}, err
	}
	own, err := givenRange(ctx, client, f.node.blank(f.name))
	if err != nil {
		return netip.Prefix{}, err
	}
	return own, f.within(own)
}

func givenRange(ctx context.Context, client kubernetes.Interface, blank *v1.Node) (netip.Prefix, error) {
	name := blank.Name
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			node, err = client.CoreV1().Nodes().Create(ctx, blank, metav1.CreateOptions{})
		}
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return netip.Prefix{}, fmt.Errorf("register node %s: %w", name, err)
		}
		if err == nil && node.Spec.PodCIDR != "" {
			return netip.ParsePrefix(node.Spec.PodCIDR)
		}
		select {
		case <-ctx.Done():
			return netip.Prefix{}, fmt.Errorf("node %s is given no range of pod addresses: is the host's --pod-cidr used up?", name)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// awaitHost asks for the node until the host answers, whatever it does: a machine
// that starts before its host has it waiting, not ended.
func awaitHost(ctx context.Context, client kubernetes.Interface, name string, log *slog.Logger) error {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 10*time.Second) {
		_, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if !unanswered(err) {
			return nil
		}
		log.Warn("the host does not answer; it is asked again", "err", err, "in", wait)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// unanswered: nobody answered, or somebody who is about to start or to end.
func unanswered(err error) bool {
	if errors.As(err, new(*tls.CertificateVerificationError)) {
		return false // it would not be another one's the next time
	}
	return err != nil && (!errors.As(err, new(apierrors.APIStatus)) || apierrors.IsServiceUnavailable(err))
}

// awaitReady waits until the node may be given pods.
func awaitReady(ctx context.Context, client kubernetes.Interface, name string) error {
	for {
		node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err == nil && isReady(node) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func isReady(node *v1.Node) bool {
	for i := range node.Spec.Taints {
		if node.Spec.Taints[i].Key == v1.TaintNodeNotReady {
			return false
		}
	}
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == v1.NodeReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}
