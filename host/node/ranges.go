package node

import (
	"context"
	"net/netip"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/host/store"
)

// rangeBits is the size of a node's part of the pod network: a /24 for IPv4.
const rangeBits = 24

// FreeRange returns the first part of the cluster's range that no node has; ok
// is false when all are taken.
func FreeRange(cluster netip.Prefix, taken map[netip.Prefix]bool) (free netip.Prefix, ok bool) {
	bits := max(rangeBits, cluster.Bits())
	if !cluster.Addr().Is4() {
		return free, false
	}
	base := cluster.Masked().Addr().As4()
	first := uint32(base[0])<<24 | uint32(base[1])<<16 | uint32(base[2])<<8 | uint32(base[3])
	for i := range uint32(1) << (bits - cluster.Bits()) {
		n := first + i<<(32-bits)
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}), bits)
		if !taken[p] {
			return p, true
		}
	}
	return free, false
}

// simulated begins the name of a runtime that runs no containers, which need no
// addresses: there may be more such nodes than the pod network has parts.
const simulated = "simulated://"

// lacksRange says whether the node is to be given a part of the pod network.
func (c *Controller) lacksRange(node *v1.Node) bool {
	return c.cluster.IsValid() && node.Spec.PodCIDR == "" &&
		!strings.HasPrefix(node.Status.NodeInfo.ContainerRuntimeVersion, simulated)
}

// allot gives the node its part of the pod network, if it lacks one. The parts that
// are taken are counted at the first need of a sweep.
func (c *Controller) allot(ctx context.Context, node *v1.Node) error {
	if c.exhausted || !c.lacksRange(node) {
		return nil
	}
	if c.taken == nil {
		if err := c.countTaken(); err != nil {
			return err
		}
	}
	free, ok := FreeRange(c.cluster, c.taken)
	if !ok {
		c.exhausted = true
		c.log.Warn("no pod range is left for further nodes", "node", node.Name, "range", c.cluster)
		return nil
	}
	c.taken[free] = true
	_, err := c.objects.Update(ctx, store.Key{Resource: "nodes", Name: node.Name}, func(o store.Object) (store.Object, error) {
		have, ok := o.(*v1.Node)
		if !ok || have.UID != node.UID || have.Spec.PodCIDR != "" {
			return o, nil
		}
		next := have.DeepCopy()
		next.Spec.PodCIDR, next.Spec.PodCIDRs = free.String(), []string{free.String()}
		return next, nil
	})
	return err
}

func (c *Controller) countTaken() error {
	nodes, err := c.objects.List("nodes", "", store.ListOptions{})
	if err != nil {
		return err
	}
	c.taken = map[netip.Prefix]bool{}
	for _, o := range nodes.Items {
		node, ok := o.(*v1.Node)
		if !ok {
			continue
		}
		if p, err := netip.ParsePrefix(node.Spec.PodCIDR); err == nil {
			c.taken[p] = true
		}
	}
	return nil
}
