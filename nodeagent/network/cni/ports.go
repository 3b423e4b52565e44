package cni

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/berth-dev/berth/nodeagent/forward"
	"github.com/berth-dev/berth/nodeagent/network"
)

// portMappings is where libcni keeps a pod's ports for us, with its result.
const portMappings = "portMappings"

// openPort opens a pod's ports of the machine.
func (n *Network) openPort(id string, ports []network.PortMapping, ips []netip.Addr) error {
	fronts, err := hostPorts(ports, ips)
	if err != nil || len(fronts) == 0 {
		return err
	}
	if n.rules == nil {
		return errors.New("this kernel has no nftables, so pods can have no ports of the machine")
	}
	return n.rules.Pin(id, fronts)
}

// hostPorts gives what becomes of connections to a pod's ports: they keep their
// addresses, but for the machine's own.
func hostPorts(ports []network.PortMapping, ips []netip.Addr) (map[forward.Front]*forward.Entry, error) {
	fronts := map[forward.Front]*forward.Entry{}
	for _, p := range ports {
		if p.HostPort == 0 {
			continue
		}
		protocol, known := forward.ProtocolOf(strings.ToUpper(p.Protocol))
		if !known || p.HostPort < 0 || p.HostPort > 65535 || p.ContainerPort < 1 || p.ContainerPort > 65535 {
			return nil, fmt.Errorf("host port %d, container port %d, protocol %q: no such ports", p.HostPort, p.ContainerPort, p.Protocol)
		}
		for _, ip := range ips {
			at := netip.IPv6Unspecified()
			if ip.Is4() {
				at = netip.IPv4Unspecified()
			}
			if p.HostIP != "" {
				own, err := netip.ParseAddr(p.HostIP)
				if err != nil {
					return nil, fmt.Errorf("host port %d: %w", p.HostPort, err)
				}
				if own.Is4() != ip.Is4() {
					continue
				}
				at = own
			}
			to := forward.Target{Backends: []netip.AddrPort{netip.AddrPortFrom(ip, uint16(p.ContainerPort))}}
			outside := to
			outside.KeepSource = true
			fronts[forward.Front{Addr: at, Port: uint16(p.HostPort), Protocol: protocol}] = &forward.Entry{Inside: to, Outside: &outside}
		}
	}
	return fronts, nil
}

// openPorts opens those of the pods that run already.
func (n *Network) openPorts() error {
	var errs []error
	for _, id := range n.cached() {
		a, ok := n.attached(id)
		if !ok {
			continue
		}
		ports, err := n.portsOf(id)
		if err == nil {
			err = n.openPort(id, ports, a.IPs)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("ports of %s: %w", id, err))
		}
	}
	return errors.Join(errs...)
}

// portsOf reads what a pod was connected with.
func (n *Network) portsOf(id string) (ports []network.PortMapping, err error) {
	list, rt := n.eth, n.ethernet(id, n.netns(id), nil, network.Pod{})
	if n.own() {
		list, rt = n.lo, n.loopback(id, n.netns(id), nil)
	}
	_, rt, err = n.cni.GetNetworkListCachedConfig(list, rt)
	if err != nil || rt == nil || rt.CapabilityArgs[portMappings] == nil {
		return nil, err
	}
	b, err := json.Marshal(rt.CapabilityArgs[portMappings])
	if err != nil {
		return nil, err
	}
	return ports, json.Unmarshal(b, &ports)
}
