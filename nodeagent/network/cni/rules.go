package cni

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
)

// layRules lets packets of pods through and masquerades what leaves the
// cluster's ranges. The chains are this node's own, and filled anew.
func (n *Network) layRules(ctx context.Context) error {
	for _, r := range n.cfg.PodRanges {
		program, forward := "iptables", "/proc/sys/net/ipv4/ip_forward"
		if r.Addr().Is6() {
			program, forward = "ip6tables", "/proc/sys/net/ipv6/conf/all/forwarding"
		}
		if err := os.WriteFile(forward, []byte("1"), 0o644); err != nil {
			return fmt.Errorf("switch on forwarding: %w", err)
		}
		if err := n.masquerade(ctx, program, r); err != nil {
			return err
		}
		if err := n.forward(ctx, program); err != nil {
			return err
		}
	}
	return nil
}

// chain names are per bridge, as several agents may share a machine.
func (n *Network) chain(what string) string { return "BERTH-" + what + "-" + n.cfg.Bridge }

func (n *Network) masquerade(ctx context.Context, program string, r netip.Prefix) error {
	chain := n.chain("MASQ")
	rules := [][]string{}
	for _, c := range n.cfg.ClusterRanges {
		if c.Addr().Is4() == r.Addr().Is4() {
			rules = append(rules, []string{"-d", c.String(), "-j", "RETURN"})
		}
	}
	multicast := "224.0.0.0/4"
	if r.Addr().Is6() {
		multicast = "ff00::/8"
	}
	rules = append(rules, []string{"-d", multicast, "-j", "RETURN"}, []string{"-j", "MASQUERADE"})
	return n.fill(ctx, program, "nat", chain, rules, []string{"POSTROUTING", "-s", r.String(), "-j", chain})
}

func (n *Network) forward(ctx context.Context, program string) error {
	chain := n.chain("FWD")
	rules := [][]string{{"-i", n.cfg.Bridge, "-j", "ACCEPT"}, {"-o", n.cfg.Bridge, "-j", "ACCEPT"}}
	return n.fill(ctx, program, "filter", chain, rules, []string{"FORWARD", "-j", chain})
}

// fill makes a chain hold exactly these rules, and be jumped to once.
func (n *Network) fill(ctx context.Context, program, table, chain string, rules [][]string, jump []string) error {
	in := func(args ...string) error {
		_, err := n.run(ctx, program, append([]string{"-w", "10", "-t", table}, args...)...)
		return err
	}
	if in("-n", "-L", chain) != nil {
		if err := in("-N", chain); err != nil {
			return err
		}
	}
	if err := in("-F", chain); err != nil {
		return err
	}
	for _, r := range rules {
		if err := in(append([]string{"-A", chain}, r...)...); err != nil {
			return err
		}
	}
	if in(append([]string{"-C"}, jump...)...) == nil {
		return nil
	}
	return in(append([]string{"-I"}, jump...)...)
}

// Close removes bridge, routes and rules. It is for nodes that go for good:
// pods on the bridge are cut off.
func (n *Network) Close(ctx context.Context) error {
	var errs []error
	errs = append(errs, n.SetPeers(ctx, nil, nil))
	for _, r := range n.cfg.PodRanges {
		program := "iptables"
		if r.Addr().Is6() {
			program = "ip6tables"
		}
		errs = append(errs,
			n.drop(ctx, program, "nat", n.chain("MASQ"), []string{"POSTROUTING", "-s", r.String(), "-j", n.chain("MASQ")}),
			n.drop(ctx, program, "filter", n.chain("FWD"), []string{"FORWARD", "-j", n.chain("FWD")}))
	}
	if n.rules != nil {
		errs = append(errs, n.rules.Remove())
	}
	return errors.Join(append(errs, removeLink(n.cfg.Bridge))...)
}

func (n *Network) drop(ctx context.Context, program, table, chain string, jump []string) error {
	for _, args := range [][]string{append([]string{"-D"}, jump...), {"-F", chain}, {"-X", chain}} {
		if _, err := n.run(ctx, program, append([]string{"-w", "10", "-t", table}, args...)...); err != nil {
			return err
		}
	}
	return nil
}

// run runs a program of the machine; its error has what the program said.
func (n *Network) run(ctx context.Context, program string, args ...string) (string, error) {
	path := n.paths[program]
	if path == "" {
		path = program
	}
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, bytes.TrimSpace(errs.Bytes()))
	}
	return out.String(), nil
}
