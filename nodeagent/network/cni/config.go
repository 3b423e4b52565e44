package cni

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"

	"github.com/containernetworking/cni/libcni"
	"github.com/vishvananda/netlink"

	"github.com/berth-dev/berth/nodeagent/nft"
)

// Config says how pods are connected.
type Config struct {
	// PodRanges are this node's: one of IPv4 and, if wanted, one of IPv6.
	PodRanges []netip.Prefix
	// ClusterRanges are where traffic keeps its address: the ranges of all
	// nodes. Empty: PodRanges.
	ClusterRanges []netip.Prefix
	// Names are addresses at which the machine answers DNS: no pod's port of the
	// machine is one of theirs.
	Names []netip.Addr
	// Bridge is the name of the node's bridge; empty: berth0.
	Bridge string
	// MTU of pods; 0: the kernel's default.
	MTU int
	// State is the folder for namespaces, leases and results.
	State string
	// ConfDir is where the user's own CNI has its configuration, in place of Berth's
	// bridge and routes; empty: these.
	ConfDir string
	// Bin is searched for plugins before the usual places.
	Bin []string
	Log *slog.Logger

	// What a kernel may lack; tests have it refuse.
	openRules func(nft.Config) (*nft.Kernel, error)
	addTunnel func(netlink.Link) error
}

const (
	cniVersion  = "1.0.0"
	networkName = "berth"
	podIfname   = "eth0"
)

func (cfg Config) withDefaults() (Config, error) {
	if cfg.Bridge == "" {
		cfg.Bridge = "berth0"
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.openRules == nil {
		cfg.openRules = nft.Open
	}
	if cfg.addTunnel == nil {
		cfg.addTunnel = netlink.LinkAdd
	}
	if len(cfg.Bridge) > 15 {
		return cfg, fmt.Errorf("the bridge name %q is longer than an interface's may be (15)", cfg.Bridge)
	}
	if len(cfg.PodRanges) == 0 {
		return cfg, fmt.Errorf("the node has no pod range: give it one (spec.podCIDR)")
	}
	seen := map[bool]bool{}
	for _, r := range cfg.PodRanges {
		if !r.IsValid() || r != r.Masked() {
			return cfg, fmt.Errorf("pod range %s is not a network: want %s", r, r.Masked())
		}
		if free := r.Addr().BitLen() - r.Bits(); free < 2 {
			return cfg, fmt.Errorf("pod range %s has no room for pods", r)
		}
		if seen[r.Addr().Is4()] {
			return cfg, fmt.Errorf("pod ranges %v: at most one of each family", cfg.PodRanges)
		}
		seen[r.Addr().Is4()] = true
	}
	if len(cfg.ClusterRanges) == 0 {
		cfg.ClusterRanges = cfg.PodRanges
	}
	return cfg, nil
}

func (cfg Config) netnsDir() string  { return filepath.Join(cfg.State, "netns") }
func (cfg Config) leaseDir() string  { return filepath.Join(cfg.State, "leases") }
func (cfg Config) resultDir() string { return filepath.Join(cfg.State, "results") }

// lists gives the two networks of a pod: lo, then eth0.
func (cfg Config) lists() (lo, eth *libcni.NetworkConfigList, err error) {
	type object = map[string]any
	var ranges [][]object
	var routes []object
	for _, r := range cfg.PodRanges {
		ranges = append(ranges, []object{{"subnet": r.String()}})
		dst := "0.0.0.0/0"
		if r.Addr().Is6() {
			dst = "::/0"
		}
		routes = append(routes, object{"dst": dst})
		gateway := r.Addr().Next().String()
		for _, half := range halves(r) {
			routes = append(routes, object{"dst": half.String(), "gw": gateway})
		}
	}
	bridge := object{
		"type": "bridge", "bridge": cfg.Bridge, "isGateway": true, "hairpinMode": true,
		"ipam": object{"type": "host-local", "ranges": ranges, "routes": routes, "dataDir": cfg.leaseDir()},
	}
	if cfg.MTU > 0 {
		bridge["mtu"] = cfg.MTU
	}
	if lo, err = list(networkName+"-lo", object{"type": "loopback"}); err != nil {
		return nil, nil, err
	}
	eth, err = list(networkName, bridge)
	return lo, eth, err
}

// halves of a range, routed to by the bridge's own address, win over the range
// itself: so what a pod answers to another on the bridge comes by where the
// question was sent to a service's backend, and not past it. The half that the
// gateway is in is the last: IPv6 takes no gateway that lies behind itself.
func halves(r netip.Prefix) [2]netip.Prefix {
	upper := r.Addr().AsSlice()
	upper[r.Bits()/8] |= 0x80 >> (r.Bits() % 8)
	second, _ := netip.AddrFromSlice(upper) // as long as it was
	return [2]netip.Prefix{netip.PrefixFrom(second, r.Bits()+1), netip.PrefixFrom(r.Addr(), r.Bits()+1)}
}

func list(name string, plugins ...map[string]any) (*libcni.NetworkConfigList, error) {
	b, err := json.Marshal(map[string]any{"cniVersion": cniVersion, "name": name, "plugins": plugins})
	if err != nil {
		return nil, fmt.Errorf("write the network configuration: %w", err)
	}
	l, err := libcni.NetworkConfFromBytes(b)
	if err != nil {
		return nil, fmt.Errorf("read the network configuration: %w", err)
	}
	return l, nil
}
