package machine

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-dev/berth/nodeagent/network/cni"
)

// settle is how long changes of nodes are gathered before routes follow; again is
// when all is looked at without a change, for what somebody else undid.
const (
	settle = 200 * time.Millisecond
	again  = 30 * time.Second
)

// FollowPeers keeps a route to the pods of each other node, until ctx ends.
func (m *Machine) FollowPeers(ctx context.Context, client kubernetes.Interface, self string, log *slog.Logger) error {
	factory := informers.NewSharedInformerFactory(client, 0)
	nodes := factory.Core().V1().Nodes()
	changed := make(chan struct{}, 1)
	note := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	_, err := nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { note() },
		UpdateFunc: func(old, now any) {
			if !slices.Equal(route(old.(*v1.Node)), route(now.(*v1.Node))) {
				note()
			}
		},
		DeleteFunc: func(any) { note() },
	})
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	if !cache.WaitForCacheSync(ctx.Done(), nodes.Informer().HasSynced) {
		return ctx.Err()
	}
	told := ""
	note() // also where there are no others: routes to former ones go
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		case <-time.After(again):
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(settle):
		}
		all, err := nodes.Lister().List(labels.Everything())
		if err == nil {
			err = m.Network.SetPeers(ctx, addresses(all, self), Peers(all, self))
		}
		if err == nil || errors.Is(err, context.Canceled) {
			told = ""
		} else if told != err.Error() { // once
			told = err.Error()
			log.Warn("routes to other nodes' pods", "err", err)
		}
	}
}

// addresses are a node's own.
func addresses(nodes []*v1.Node, name string) []netip.Addr {
	var all []netip.Addr
	for _, n := range nodes {
		if n.Name != name {
			continue
		}
		for _, a := range n.Status.Addresses {
			if parsed, err := netip.ParseAddr(a.Address); err == nil && a.Type == v1.NodeInternalIP {
				all = append(all, parsed.Unmap())
			}
		}
	}
	return all
}

// Peers gives the routes to the pods of all nodes but self. Nodes that say no
// range or no address yet are left out.
func Peers(nodes []*v1.Node, self string) []cni.Peer {
	var peers []cni.Peer
	for _, n := range nodes {
		if n.Name != self {
			peers = append(peers, route(n)...)
		}
	}
	return peers
}

// route gives a node's pod ranges, each by its internal address of that family.
func route(n *v1.Node) []cni.Peer {
	ranges := n.Spec.PodCIDRs
	if len(ranges) == 0 {
		ranges = []string{n.Spec.PodCIDR}
	}
	var peers []cni.Peer
	for _, text := range ranges {
		r, err := netip.ParsePrefix(text)
		if err != nil {
			continue
		}
		for _, a := range n.Status.Addresses {
			via, err := netip.ParseAddr(a.Address)
			if err == nil && a.Type == v1.NodeInternalIP && via.Is4() == r.Addr().Is4() {
				peers = append(peers, cni.Peer{Range: r.Masked(), Via: via})
				break
			}
		}
	}
	return peers
}
