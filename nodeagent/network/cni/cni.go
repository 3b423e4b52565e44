package cni

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/berth-dev/berth/nodeagent/keyed"
	"github.com/berth-dev/berth/nodeagent/network"
	"github.com/berth-dev/berth/nodeagent/nft"
	"github.com/berth-dev/berth/nodeagent/tool"
)

// plugins are run for each pod.
var plugins = []string{"bridge", "host-local", "loopback"}

// Network is a network.Network. It is large because a pod's network is made of parts
// that undo each other: namespaces, the bridge, ports, rules, routes and the tunnel,
// a file each.
type Network struct {
	cfg     Config
	cni     *libcni.CNIConfig
	lo, eth *libcni.NetworkConfigList
	busy    keyed.Locks // by id: one Add or Del at a time
	rules   *nft.Kernel // nil where the kernel has none
	// filtered: bridges' frames were last seen to pass the rules for IP.
	filtered atomic.Bool
	// told is what of the user's own CNI the log has told.
	told sync.Map
}

// Open checks that this machine can connect pods and lays its rules.
func Open(ctx context.Context, cfg Config) (*Network, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if os.Geteuid() != 0 {
		return nil, errors.New("pod networks need root: run as root, or without containers (--agent none)")
	}
	n := &Network{cfg: cfg}
	needed := plugins
	if n.own() {
		needed = []string{"loopback"}
	}
	found, err := tool.FindPlugins(needed, cfg.Bin...)
	if err != nil {
		return nil, err
	}
	if n.lo, n.eth, err = cfg.lists(); err != nil {
		return nil, err
	}
	var dirs []string
	for _, p := range needed {
		if dir := filepath.Dir(found[p]); !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	if n.own() {
		dirs = tool.PluginDirs(cfg.Bin...)
	}
	// libcni would make this itself, but not safely for calls at once.
	run := &invoke.DefaultExec{RawExec: &invoke.RawExec{Stderr: io.Discard}}
	n.cni = libcni.NewCNIConfigWithCacheDir(dirs, cfg.resultDir(), run)
	for _, dir := range []string{cfg.netnsDir(), cfg.leaseDir(), cfg.resultDir()} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return nil, fmt.Errorf("open network: %w", err)
		}
	}
	if err := n.layBridge(); err != nil {
		return nil, err
	}
	if err := n.switchOnForwarding(); err != nil {
		return nil, err
	}
	n.tryTunnel()
	if n.rules, err = cfg.openRules(n.ruleConfig()); err != nil {
		cfg.Log.Warn("services and host ports do not answer on this machine, network policies do not hold, and pods reach nobody outside the cluster; they run, and reach each other by their addresses", "err", err)
		return n, nil
	}
	return n, errors.Join(n.bindAll(), n.openPorts())
}

func (n *Network) ruleConfig() nft.Config {
	out := nft.Config{Bridge: n.cfg.Bridge, PodRanges: n.cfg.PodRanges, ClusterRanges: n.cfg.ClusterRanges, Names: n.cfg.Names, Log: n.cfg.Log}
	if n.own() {
		out.NoLoopback = true // openLoopback is for the bridge
		return out
	}
	out.Tunnels = []string{tunnel4.name, tunnel6.name}
	return out
}

// layBridge makes the bridge, unless the user's own CNI connects pods.
func (n *Network) layBridge() error {
	if n.own() {
		if err := n.checkOwn(); err != nil {
			n.cfg.Log.Warn("pods wait for their network", "err", err)
		}
		return nil
	}
	if err := n.checkBridge(); err != nil {
		return err
	}
	if err := n.makeBridge(); err != nil {
		return err
	}
	return n.keepApart()
}

// Forward is what makes services answer on this machine; nil if nothing can.
func (n *Network) Forward() *nft.Kernel { return n.rules }

func (n *Network) netns(id string) string { return filepath.Join(n.cfg.netnsDir(), id) }

// checkID refuses what is no file name.
func checkID(id string) error {
	if id == "" || id == "." || id == ".." || strings.ContainsAny(id, "/\x00") {
		return fmt.Errorf("%q can not name an attachment", id)
	}
	return nil
}

// Add implements network.Network.
func (n *Network) Add(ctx context.Context, pod network.Pod) (network.Attachment, error) {
	fail := func(err error) (network.Attachment, error) {
		return network.Attachment{}, fmt.Errorf("connect pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	if err := checkID(pod.ID); err != nil {
		return fail(err)
	}
	defer n.busy.Lock(pod.ID)()
	if a, ok := n.attached(pod.ID); ok {
		return a, nil
	}
	// What a crash left half-done goes first.
	if err := n.del(ctx, pod.ID); err != nil {
		return fail(err)
	}
	a, err := n.add(ctx, pod)
	if err != nil {
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
		defer cancel()
		return fail(errors.Join(err, n.del(undo, pod.ID)))
	}
	return a, nil
}

func (n *Network) add(ctx context.Context, pod network.Pod) (a network.Attachment, err error) {
	defer readable(&err)
	path := n.netns(pod.ID)
	if err := makeNetns(path, pod.IDs); err != nil {
		return network.Attachment{}, err
	}
	if _, err := n.cni.AddNetworkList(ctx, n.lo, n.loopback(pod.ID, path, pod.Ports)); err != nil {
		return network.Attachment{}, explain(err)
	}
	list, err := n.network()
	if err != nil {
		return network.Attachment{}, err
	}
	res, err := n.cni.AddNetworkList(ctx, list, n.ethernet(pod.ID, path, pod.Ports, pod))
	if err != nil {
		return network.Attachment{}, explain(err)
	}
	if a, err = attachment(path, res); err != nil {
		return network.Attachment{}, err
	}
	if n.own() {
		for _, ip := range a.IPs {
			n.checkWithin(netip.PrefixFrom(ip, ip.BitLen()))
		}
	} else if err := errors.Join(n.openLoopback(), n.keepApart(), n.bind(pod.ID, res)); err != nil {
		return network.Attachment{}, err
	}
	return a, n.openPort(pod.ID, pod.Ports, a.IPs)
}

// openLoopback lets what the machine sends to a port of its 127.0.0.1 go on to a
// pod and come back: the bridge is there since the first pod. The kernel's rules
// keep pods themselves away from there.
func (n *Network) openLoopback() error {
	if n.rules == nil {
		return nil
	}
	err := os.WriteFile("/proc/sys/net/ipv4/conf/"+n.cfg.Bridge+"/route_localnet", []byte("1"), 0o644)
	if errors.Is(err, os.ErrNotExist) { // no IPv4 here
		return nil
	}
	return err
}

// explain adds what to do to what a plugin says.
func explain(err error) error {
	if strings.Contains(err.Error(), "no IP addresses available") {
		return fmt.Errorf("%w: the node's pod range is used up: give nodes larger ranges, or fewer pods", err)
	}
	return err
}

func (n *Network) loopback(id, path string, ports []network.PortMapping) *libcni.RuntimeConf {
	rt := &libcni.RuntimeConf{ContainerID: id, NetNS: path, IfName: "lo"}
	if len(ports) > 0 && n.own() { // kept here, the user's CNI does not open them too
		rt.CapabilityArgs = map[string]any{portMappings: ports}
	}
	return rt
}

func (n *Network) ethernet(id, path string, ports []network.PortMapping, pod network.Pod) *libcni.RuntimeConf {
	rt := &libcni.RuntimeConf{
		ContainerID: id, NetNS: path, IfName: podIfname,
		Args: [][2]string{
			{"IgnoreUnknown", "1"},
			{"K8S_POD_NAMESPACE", pod.Namespace}, {"K8S_POD_NAME", pod.Name}, {"K8S_POD_UID", pod.UID},
		},
	}
	switch {
	case !n.own() && len(ports) > 0:
		rt.CapabilityArgs = map[string]any{portMappings: ports}
	case n.own() && pod.Ingress+pod.Egress > 0:
		rt.CapabilityArgs = map[string]any{"bandwidth": bandwidth(pod)}
	}
	return rt
}

// attached finds an attachment that is whole.
func (n *Network) attached(id string) (network.Attachment, bool) {
	path := n.netns(id)
	if !isNetns(path) {
		return network.Attachment{}, false
	}
	a, err := n.remembered(id, path)
	return a, err == nil
}

// remembered is the attachment of which libcni keeps the result.
func (n *Network) remembered(id, path string) (a network.Attachment, err error) {
	res, err := n.kept(id, path)
	if err != nil {
		return a, err
	}
	return attachment(path, res)
}

// kept is the result that libcni keeps.
func (n *Network) kept(id, path string) (res types.Result, err error) {
	defer readable(&err)
	list, err := n.networkOf(id)
	if err != nil {
		return nil, err
	}
	res, err = n.cni.GetNetworkListCachedResult(list, n.ethernet(id, path, nil, network.Pod{}))
	if err == nil && res == nil {
		return nil, errors.New("no result is kept")
	}
	return res, err
}

// readable makes an error of an answer that libcni cannot bear: where it turns
// one version's answer into another's, it trusts that nothing in it is null.
func readable(err *error) {
	if broken := recover(); broken != nil {
		*err = fmt.Errorf("the plugins' answer cannot be read: %v", broken)
	}
}

func attachment(path string, res types.Result) (a network.Attachment, err error) {
	defer readable(&err)
	r, err := types100.NewResultFromResult(res)
	if err != nil {
		return network.Attachment{}, fmt.Errorf("read the plugins' result: %w", err)
	}
	a.NetNS = path
	for _, ip := range r.IPs {
		if ip == nil {
			continue
		}
		if addr, ok := netip.AddrFromSlice(ip.Address.IP); ok {
			a.IPs = append(a.IPs, addr.Unmap())
		}
	}
	if len(a.IPs) == 0 {
		return network.Attachment{}, errors.New("the plugins gave the pod no address")
	}
	return a, nil
}

// Del implements network.Network.
func (n *Network) Del(ctx context.Context, id string) error {
	if err := checkID(id); err != nil {
		return err
	}
	defer n.busy.Lock(id)()
	if err := n.del(ctx, id); err != nil {
		return fmt.Errorf("disconnect %s: %w", id, err)
	}
	return nil
}

// del removes all traces of an attachment. Plugins do without what is gone.
func (n *Network) del(ctx context.Context, id string) (err error) {
	defer readable(&err)
	path := n.netns(id)
	given := path
	if !isNetns(path) {
		given = ""
	}
	if n.rules != nil {
		if err := n.rules.Unpin(id); err != nil {
			return err
		}
	}
	rt := n.ethernet(id, given, nil, network.Pod{})
	if n.known(id) {
		list, err := n.networkOf(id)
		if err != nil {
			return err
		}
		// The port mappings of the Add are in the cache.
		if _, cached, err := n.cni.GetNetworkListCachedConfig(list, n.ethernet(id, path, nil, network.Pod{})); err == nil && cached != nil {
			rt.CapabilityArgs, rt.Args = cached.CapabilityArgs, cached.Args
		}
		if err := n.cni.DelNetworkList(ctx, list, rt); err != nil {
			return err
		}
		if given != "" {
			if err := n.cni.DelNetworkList(ctx, n.lo, n.loopback(id, given, nil)); err != nil {
				return err
			}
		}
	}
	if n.rules != nil {
		if err := n.rules.Unbind(id); err != nil {
			return err
		}
	}
	if err := n.release(id); err != nil {
		return err
	}
	return removeNetns(path)
}

// known: there is something for the plugins to undo.
func (n *Network) known(id string) bool {
	if _, err := os.Stat(n.netns(id)); err == nil {
		return true
	}
	return slices.Contains(n.cached(), id) || slices.Contains(n.leased(), id)
}

// Sweep implements network.Network.
func (n *Network) Sweep(ctx context.Context, keep func() []string) error {
	ids := slices.Concat(n.cached(), n.leased())
	entries, err := os.ReadDir(n.cfg.netnsDir())
	if err != nil {
		return fmt.Errorf("sweep networks: %w", err)
	}
	for _, e := range entries {
		ids = append(ids, e.Name())
	}
	slices.Sort(ids)
	kept := keep()
	var errs []error
	for _, id := range slices.Compact(ids) {
		if !slices.Contains(kept, id) {
			errs = append(errs, n.Del(ctx, id))
		}
	}
	return errors.Join(errs...)
}

// cached lists the attachments of which libcni has a result.
func (n *Network) cached() []string {
	entries, err := os.ReadDir(filepath.Join(n.cfg.resultDir(), "results"))
	if err != nil {
		return nil
	}
	var ids []string
	for _, e := range entries {
		id, ok := strings.CutPrefix(e.Name(), networkName+"-")
		if !ok {
			continue
		}
		id = strings.TrimPrefix(id, "lo-")
		for _, suffix := range []string{"-" + podIfname, "-lo"} {
			if short, ok := strings.CutSuffix(id, suffix); ok {
				ids = append(ids, short)
				break
			}
		}
	}
	return ids
}

// leases lists host-local's files, one an address, with the id in each.
func (n *Network) leases() map[string]string {
	dir := filepath.Join(n.cfg.leaseDir(), networkName)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	out := map[string]string{}
	for _, e := range entries {
		if _, err := netip.ParseAddr(strings.ReplaceAll(e.Name(), "_", ":")); err != nil {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if b, err := os.ReadFile(path); err == nil {
			id, _, _ := strings.Cut(string(b), "\n")
			out[path] = strings.TrimSpace(id)
		}
	}
	return out
}

func (n *Network) leased() []string {
	var ids []string
	for _, id := range n.leases() {
		if checkID(id) == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// release frees addresses that the plugin left leased.
func (n *Network) release(id string) error {
	for path, holder := range n.leases() {
		if holder != id {
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("free an address: %w", err)
		}
	}
	return nil
}

// Ready implements network.Network.
func (n *Network) Ready(context.Context) error {
	if n.own() {
		return n.checkOwn()
	}
	if _, err := tool.FindPlugins(plugins, n.cfg.Bin...); err != nil {
		return err
	}
	if err := n.checkBridge(); err != nil {
		return err
	}
	return n.stayApart()
}
