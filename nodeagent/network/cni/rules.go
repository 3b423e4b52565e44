package cni

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// switchOnForwarding lets the kernel send on what is not for this machine.
func (n *Network) switchOnForwarding() error {
	for _, r := range n.cfg.PodRanges {
		path := "/proc/sys/net/ipv4/ip_forward"
		if r.Addr().Is6() {
			path = "/proc/sys/net/ipv6/conf/all/forwarding"
		}
		if err := os.WriteFile(path, []byte("1"), 0o644); err != nil {
			return fmt.Errorf("switch on forwarding: %w", err)
		}
	}
	return nil
}

// Close removes bridge, routes and rules. It is for nodes that go for good:
// pods on the bridge are cut off.
func (n *Network) Close(ctx context.Context) error {
	var errs []error
	errs = append(errs, n.SetPeers(ctx, nil, nil))
	if n.rules != nil {
		errs = append(errs, n.rules.Remove())
	}
	return errors.Join(append(errs, removeLink(n.cfg.Bridge))...)
}
