package cni

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
)

// Peer is another node: its pod range is reached by its address.
type Peer struct {
	Range netip.Prefix
	Via   netip.Addr
}

// choose leaves out the peers to which a route would take packets from others:
// from this node's pods, from a node's own address, from a range that is another
// node's too. Of ranges that overlap the smaller counts, of equal ones the one
// with the lower address: each machine chooses alike.
func choose(own []netip.Prefix, self []netip.Addr, peers []Peer) (chosen []Peer, errs []error) {
	sorted := slices.Clone(peers)
	for i := range sorted {
		sorted[i].Range, sorted[i].Via = sorted[i].Range.Masked(), sorted[i].Via.Unmap()
	}
	slices.SortFunc(sorted, func(a, b Peer) int {
		return cmp.Or(cmp.Compare(b.Range.Bits(), a.Range.Bits()), a.Range.Addr().Compare(b.Range.Addr()), a.Via.Compare(b.Via))
	})
	nodes := slices.Clone(self)
	for _, p := range peers {
		nodes = append(nodes, p.Via.Unmap())
	}
	for _, p := range slices.Compact(sorted) {
		if err := refuse(own, nodes, chosen, p); err != nil {
			errs = append(errs, fmt.Errorf("no route to %s via %s: %w", p.Range, p.Via, err))
		} else {
			chosen = append(chosen, p)
		}
	}
	return chosen, errs
}

func refuse(own []netip.Prefix, nodes []netip.Addr, chosen []Peer, p Peer) error {
	if !p.Range.IsValid() || !p.Via.IsValid() || p.Range.Addr().Is4() != p.Via.Is4() {
		return fmt.Errorf("addresses do not fit")
	}
	for _, r := range own {
		if r.Overlaps(p.Range) {
			return fmt.Errorf("it overlaps this node's own range %s: give that node another", r)
		}
	}
	for _, a := range nodes {
		if p.Range.Contains(a) {
			return fmt.Errorf("the node %s has an address in it: give that node another range", a)
		}
	}
	for _, c := range chosen {
		if c.Range.Overlaps(p.Range) {
			return fmt.Errorf("it overlaps %s via %s: give one of the nodes another range", c.Range, c.Via)
		}
	}
	return nil
}
