package cni

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
)

// routeProtocol marks the routes that this package made (ip-route(8)); any
// number that the system does not use serves.
const routeProtocol = "182"

// Peer is another node: its pod range is reached by its address.
type Peer struct {
	Range netip.Prefix
	Via   netip.Addr
}

// SetPeers routes to the pods of other nodes, which must be on one link with
// this one, and removes routes to nodes that are gone.
func (n *Network) SetPeers(ctx context.Context, peers []Peer) error {
	var errs []error
	want := map[netip.Prefix]netip.Addr{}
	for _, p := range peers {
		if !p.Range.IsValid() || !p.Via.IsValid() || p.Range.Addr().Is4() != p.Via.Is4() {
			errs = append(errs, fmt.Errorf("no route to %s via %s: addresses do not fit", p.Range, p.Via))
			continue
		}
		want[p.Range.Masked()] = p.Via
	}
	had, err := n.routes(ctx)
	if err != nil {
		return err
	}
	for dst, via := range want {
		if had[dst] != via {
			errs = append(errs, n.ip(ctx, family(dst), "route", "replace", dst.String(), "via", via.String(), "proto", routeProtocol))
		}
	}
	for dst := range had {
		if _, ok := want[dst]; !ok {
			errs = append(errs, n.ip(ctx, family(dst), "route", "del", dst.String(), "proto", routeProtocol))
		}
	}
	return errors.Join(errs...)
}

func family(p netip.Prefix) string {
	if p.Addr().Is6() {
		return "-6"
	}
	return "-4"
}

// routes lists those that this package made.
func (n *Network) routes(ctx context.Context) (map[netip.Prefix]netip.Addr, error) {
	out := map[netip.Prefix]netip.Addr{}
	for _, fam := range []string{"-4", "-6"} {
		text, err := n.run(ctx, "ip", fam, "route", "show", "proto", routeProtocol)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(text) {
			fields := strings.Fields(line)
			if len(fields) < 3 || fields[1] != "via" {
				continue
			}
			dst, err := netip.ParsePrefix(fields[0])
			if err != nil {
				continue
			}
			if via, err := netip.ParseAddr(fields[2]); err == nil {
				out[dst] = via
			}
		}
	}
	return out, nil
}

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
	errs = append(errs, n.SetPeers(ctx, nil))
	if n.rules != nil {
		errs = append(errs, n.rules.Remove())
	}
	if _, err := net.InterfaceByName(n.cfg.Bridge); err == nil {
		errs = append(errs, n.ip(ctx, "link", "del", n.cfg.Bridge))
	}
	return errors.Join(errs...)
}

func (n *Network) ip(ctx context.Context, args ...string) error {
	_, err := n.run(ctx, "ip", args...)
	return err
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
