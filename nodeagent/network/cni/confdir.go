package cni

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/containernetworking/cni/libcni"

	"github.com/berth-dev/berth/nodeagent/network"
	"github.com/berth-dev/berth/nodeagent/tool"
)

// fromDir reads the network that a user's own CNI has configured in a folder: the first
// file by name, as containerd takes it. It is read for each pod, since it often comes
// from a pod, and changes with that.
func fromDir(dir string) (*libcni.NetworkConfigList, error) {
	files, err := libcni.ConfFiles(dir, []string{".conflist", ".conf", ".json"})
	if err != nil {
		return nil, fmt.Errorf("--cni-conf-dir: %w", err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("there is no network configuration in %s (.conflist, .conf or .json): pods wait until their CNI has put one there", dir)
	}
	slices.Sort(files)
	list, err := load(files[0])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", files[0], err)
	}
	return list, nil
}

// load reads a list of plugins, or the one plugin of a .conf, as a list of one.
func load(file string) (*libcni.NetworkConfigList, error) {
	if filepath.Ext(file) == ".conflist" {
		return libcni.NetworkConfFromFile(file)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var plugin map[string]any
	if err := json.Unmarshal(data, &plugin); err != nil {
		return nil, err
	}
	if kind, _ := plugin["type"].(string); kind == "" {
		return nil, errors.New("it names no plugin (type)")
	}
	all, err := json.Marshal(map[string]any{"cniVersion": plugin["cniVersion"], "name": plugin["name"], "plugins": []any{plugin}})
	if err != nil {
		return nil, err
	}
	return libcni.NetworkConfFromBytes(all)
}

// bandwidth is how a plugin is told of it, with as much at once as it takes.
func bandwidth(pod network.Pod) map[string]int64 {
	out := map[string]int64{}
	if pod.Ingress > 0 {
		out["ingressRate"], out["ingressBurst"] = pod.Ingress, math.MaxUint32
	}
	if pod.Egress > 0 {
		out["egressRate"], out["egressBurst"] = pod.Egress, math.MaxUint32
	}
	return out
}

// own says whether the user's own CNI connects pods.
func (n *Network) own() bool { return n.cfg.ConfDir != "" }

// network is the one that a pod is to be connected to.
func (n *Network) network() (*libcni.NetworkConfigList, error) {
	if !n.own() {
		return n.eth, nil
	}
	return fromDir(n.cfg.ConfDir)
}

// networkOf is the one that a pod was connected to; else that which it would be.
func (n *Network) networkOf(id string) (*libcni.NetworkConfigList, error) {
	if !n.own() {
		return n.eth, nil
	}
	all, err := n.cni.GetCachedAttachments(id)
	if err != nil {
		return nil, fmt.Errorf("look for the network of %s: %w", id, err)
	}
	for _, a := range all {
		if a.IfName == podIfname {
			return libcni.NetworkConfFromBytes(a.Config)
		}
	}
	return n.network()
}

// checkOwn says what is missing for the user's own CNI, and has the log tell what will
// not work by it.
func (n *Network) checkOwn() error {
	list, err := n.network()
	if err != nil {
		return err
	}
	var names []string
	for _, p := range list.Plugins {
		names = append(names, p.Network.Type)
	}
	if _, err = tool.FindPlugins(names, n.cfg.Bin...); err != nil {
		return err
	}
	if slices.Contains(names, "bridge") {
		n.checkFiltered()
	}
	for _, r := range ranges(list) {
		n.checkWithin(r)
	}
	return nil
}

// checkFiltered tells where pods on one bridge answer each other past the rules that
// must turn an endpoint's address back into its Service's.
func (n *Network) checkFiltered() {
	if filtered, err := bridgesFiltered(); err == nil && !filtered {
		n.warn("Services will not answer between pods on the bridge of your CNI, and network policies will not hold there: the kernel does not show bridges' packets to the rules for IP",
			"do", "modprobe br_netfilter; sysctl -w net.bridge.bridge-nf-call-iptables=1 net.bridge.bridge-nf-call-ip6tables=1")
	}
}

// checkWithin tells of addresses of pods that rules do not take for pods'.
func (n *Network) checkWithin(r netip.Prefix) {
	for _, cluster := range n.cfg.ClusterRanges {
		if cluster.Bits() <= r.Bits() && cluster.Contains(r.Addr()) {
			return
		}
	}
	n.warn("your CNI gives pods addresses outside of the cluster's range: what they send leaves it without being masqueraded, and Services and network policies take them for clients from elsewhere",
		"cluster", n.cfg.ClusterRanges, "do", "have the CNI give addresses of that range, or name the CNI's own by --pod-cidr")
}

// warn tells a thing once.
func (n *Network) warn(what string, args ...any) {
	if _, told := n.told.LoadOrStore(what, true); !told {
		n.cfg.Log.Warn(what, args...)
	}
}

// ranges are those that the plugin host-local gives addresses of; what others do, only
// pods' addresses tell.
func ranges(list *libcni.NetworkConfigList) (out []netip.Prefix) {
	type subnet struct{ Subnet string }
	for _, p := range list.Plugins {
		var conf struct {
			IPAM struct {
				subnet
				Type   string
				Ranges [][]subnet
			}
		}
		if err := json.Unmarshal(p.Bytes, &conf); err != nil || conf.IPAM.Type != "host-local" {
			continue
		}
		for _, s := range append(slices.Concat(conf.IPAM.Ranges...), conf.IPAM.subnet) {
			if r, err := netip.ParsePrefix(s.Subnet); err == nil {
				out = append(out, r.Masked())
			}
		}
	}
	return out
}
