// Package fake is a network without namespaces, for tests: it hands out
// addresses and remembers who has them.
package fake

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"github.com/berth-dev/berth/nodeagent/network"
)

// Network is the fake; call New.
type Network struct {
	// Fail, if set, is asked before each Add, Del, Listeners and Ready.
	Fail func(method, id string) error
	// Listening, if set, gives the ports of all pods; unless set there are none.
	Listening func(id string) []uint16

	mu       sync.Mutex
	prefix   netip.Prefix
	attached map[string]network.Attachment
	taken    map[netip.Addr]bool
}

// New hands out addresses of prefix, from its second on.
func New(prefix netip.Prefix) *Network {
	return &Network{prefix: prefix.Masked(), attached: map[string]network.Attachment{}, taken: map[netip.Addr]bool{}}
}

func (n *Network) fail(method, id string) error {
	if n.Fail == nil {
		return nil
	}
	return n.Fail(method, id)
}

// Add implements network.Network.
func (n *Network) Add(ctx context.Context, pod network.Pod) (network.Attachment, error) {
	if err := n.fail("Add", pod.ID); err != nil {
		return network.Attachment{}, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if a, ok := n.attached[pod.ID]; ok {
		return a, nil
	}
	for ip := n.prefix.Addr().Next().Next(); n.prefix.Contains(ip); ip = ip.Next() {
		if n.taken[ip] {
			continue
		}
		n.taken[ip] = true
		a := network.Attachment{NetNS: "/run/netns/" + pod.ID, IPs: []netip.Addr{ip}}
		n.attached[pod.ID] = a
		return a, nil
	}
	return network.Attachment{}, fmt.Errorf("no address is free in %s", n.prefix)
}

// Del implements network.Network.
func (n *Network) Del(ctx context.Context, id string) error {
	if err := n.fail("Del", id); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.del(id)
	return nil
}

func (n *Network) del(id string) {
	for _, ip := range n.attached[id].IPs {
		delete(n.taken, ip)
	}
	delete(n.attached, id)
}

// Sweep implements network.Network.
func (n *Network) Sweep(ctx context.Context, keep func() []string) error {
	n.mu.Lock()
	there := slices.Collect(maps.Keys(n.attached))
	n.mu.Unlock()
	kept := keep()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, id := range there {
		if !slices.Contains(kept, id) {
			n.del(id)
		}
	}
	return nil
}

// Listeners implements network.Network.
func (n *Network) Listeners(id string) ([]uint16, error) {
	if err := n.fail("Listeners", id); err != nil || n.Listening == nil {
		return nil, err
	}
	return n.Listening(id), nil
}

// Ready implements network.Network.
func (n *Network) Ready(ctx context.Context) error { return n.fail("Ready", "") }

// Attached counts the pods that are connected.
func (n *Network) Attached() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.attached)
}
