package cni

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// bridgeFilter says whether the kernel shows frames on bridges to the rules for IP.
const bridgeFilter = "/proc/sys/net/bridge/bridge-nf-call-iptables"

// keepApart has what a pod sends to another one of this machine pass the rules of
// network policies, whatever routes and neighbours it gives itself. Where the
// kernel shows frames on bridges to the rules for IP it does; it sends some of them
// on by the bridge alone then, those to services. Where it does not, the pods'
// ports exchange no frames, and all goes by the machine.
func (n *Network) keepApart() error {
	filtered, err := bridgesFiltered()
	if err != nil {
		return err
	}
	bridge, err := netlink.LinkByName(n.cfg.Bridge)
	if err != nil {
		return fmt.Errorf("look at bridge %s: %w", n.cfg.Bridge, err)
	}
	all, err := whole(netlink.LinkList)
	if err != nil {
		return fmt.Errorf("look at bridge %s: %w", n.cfg.Bridge, err)
	}
	for _, l := range all {
		if l.Attrs().MasterIndex != bridge.Attrs().Index {
			continue
		}
		if err := netlink.LinkSetIsolated(l, !filtered); err != nil && !gone(err) {
			return fmt.Errorf("keep %s apart from other pods' ports: %w", l.Attrs().Name, err)
		}
	}
	n.filtered.Store(filtered)
	return nil
}

// stayApart does so again where the kernel does otherwise since.
func (n *Network) stayApart() error {
	filtered, err := bridgesFiltered()
	if err != nil || filtered == n.filtered.Load() {
		return err
	}
	return n.keepApart()
}

func bridgesFiltered() (bool, error) {
	text, err := os.ReadFile(bridgeFilter)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil // this kernel cannot
	}
	return strings.TrimSpace(string(text)) == "1", err
}

// gone: a pod's port went with its pod meanwhile.
func gone(err error) bool {
	return errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT)
}
