package cni

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/berth-dev/berth/nodeagent/nft"
)

// bind has a pod's port of the bridge send by the pod's own addresses alone: what it
// sent by a neighbour's would pass for the neighbour's with network policies.
func (n *Network) bind(id string, res types.Result) error {
	if n.rules == nil {
		return nil
	}
	s, err := sender(res)
	if err != nil {
		return err
	}
	return n.rules.Bind(map[string]nft.Sender{id: s}, false)
}

// bindAll does so for the pods that run already, and for no others. One whose result
// cannot be read is left as it is.
func (n *Network) bindAll() error {
	all := map[string]nft.Sender{}
	for _, id := range n.cached() {
		path := n.netns(id)
		if n.own() || !isNetns(path) {
			continue
		}
		res, err := n.kept(id, path)
		if err != nil {
			continue // it is taken down
		}
		s, err := sender(res)
		if err != nil {
			n.cfg.Log.Warn("a pod's port is not bound to the pod's addresses", "id", id, "err", err)
			continue
		}
		all[id] = s
	}
	return n.rules.Bind(all, true)
}

// sender reads from the plugins' result what the bridge sees of a pod.
func sender(res types.Result) (s nft.Sender, err error) {
	defer readable(&err)
	r, err := types100.NewResultFromResult(res)
	if err != nil {
		return s, fmt.Errorf("read the plugins' result: %w", err)
	}
	for i, at := range r.Interfaces { // the bridge, its port, and the pod's end of that
		switch {
		case at.Sandbox != "":
			if s.MAC, err = net.ParseMAC(at.Mac); err != nil {
				return s, fmt.Errorf("read the plugins' result: %w", err)
			}
		case i > 0:
			s.Port = at.Name
		}
	}
	for _, ip := range r.IPs {
		if a, ok := netip.AddrFromSlice(ip.Address.IP); ok {
			s.IPs = append(s.IPs, a.Unmap())
		}
	}
	if s.Port == "" || len(s.Port) > 15 || len(s.MAC) != 6 || len(s.IPs) == 0 {
		return s, errors.New("read the plugins' result: it does not tell the pod's port of the bridge, and its addresses")
	}
	return s, nil
}
