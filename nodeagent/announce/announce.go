package announce

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-dev/berth/nodeagent/catalog"
	"github.com/berth-dev/berth/nodeagent/service"
)

const (
	// look is how often links are looked at, and whether the Lease is held.
	look = 5 * time.Second
	// repeat is how soon an address that is new here is told once more, in case
	// that was lost; it is told so often.
	repeat, times = time.Second, 3
)

// Config is what an Announcer needs.
type Config struct {
	Catalog *catalog.Catalog
	// Node is this node's name, Own its address.
	Node string
	Own  netip.Addr
	// Held tells whether the node's Lease is: while it is not, another may announce.
	Held func() bool
	Log  *slog.Logger
}

// Announcer is one node's.
type Announcer struct {
	cfg  Config
	wake chan struct{}

	// The rest is Run's.
	links map[int]*link
	// left is how often an address is told yet, unable who was logged that cannot be.
	left   map[netip.Addr]int
	unable map[netip.Addr]string
}

// New gives an Announcer. It answers for nothing before Run.
func New(cfg Config) *Announcer {
	return &Announcer{cfg: cfg, wake: make(chan struct{}, 1), links: map[int]*link{}, left: map[netip.Addr]int{}, unable: map[netip.Addr]string{}}
}

// Run answers until ctx ends.
func (a *Announcer) Run(ctx context.Context) error {
	defer func() {
		for _, l := range a.links {
			l.close()
		}
	}()
	stop, err := a.follow()
	if err != nil {
		return err
	}
	defer stop()
	if !cache.WaitForCacheSync(ctx.Done(), a.cfg.Catalog.Services().Informer().HasSynced) {
		return ctx.Err()
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-a.wake:
		case <-timer.C:
		}
		a.set(a.wanted())
		next := look
		if len(a.left) > 0 {
			next = repeat
		}
		timer.Reset(next)
	}
}

// follow is woken by Services that this node announces, or did.
func (a *Announcer) follow() (stop func(), err error) {
	informer := a.cfg.Catalog.Services().Informer()
	note := func(obj any) {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		if s, ok := obj.(*v1.Service); ok && s.Annotations[service.AnnouncedBy] == a.cfg.Node {
			select {
			case a.wake <- struct{}{}:
			default:
			}
		}
	}
	handler, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: note, DeleteFunc: note, UpdateFunc: func(old, now any) { note(old); note(now) },
	})
	if err != nil {
		return nil, err
	}
	return func() { _ = informer.RemoveEventHandler(handler) }, nil // it fails where there is none
}

// wanted are the addresses that this node is to announce.
func (a *Announcer) wanted() map[netip.Addr]bool {
	out := map[netip.Addr]bool{}
	if !a.cfg.Held() {
		return out
	}
	all, err := a.cfg.Catalog.Services().Lister().List(labels.Everything())
	if err != nil {
		a.cfg.Log.Error("list services", "err", err)
	}
	for _, s := range all {
		if s.Annotations[service.AnnouncedBy] != a.cfg.Node {
			continue
		}
		for _, at := range service.LoadBalancers(s) {
			out[at] = true
		}
	}
	return out
}

// set answers for these addresses and no others.
func (a *Announcer) set(wanted map[netip.Addr]bool) {
	if len(wanted)+len(a.links) == 0 {
		clear(a.unable)
		return // most nodes announce nothing, and a machine with many pods has many links
	}
	by := map[int][]netip.Addr{}
	places, err := interfaces()
	if err != nil {
		a.cfg.Log.Error("look at this machine's links", "err", err)
		return
	}
	for at := range wanted {
		index, ok := choose(places, at, a.cfg.Own)
		if !ok {
			a.cannot(at, errors.New("no link of this machine is for addresses of its family"))
			continue
		}
		by[index] = append(by[index], at)
	}
	for index, l := range a.links {
		if len(by[index]) == 0 || places[index] == nil || !l.is(places[index].Interface) {
			l.close()
			delete(a.links, index)
		}
	}
	for index, all := range by {
		if a.links[index] == nil {
			a.links[index] = newLink(places[index].Interface, a.cfg.Log)
		}
		slices.SortFunc(all, netip.Addr.Compare)
		for at, err := range a.links[index].set(all) {
			a.cannot(at, err)
		}
	}
	a.tell(wanted)
}

// cannot logs once why an address is not announced.
func (a *Announcer) cannot(at netip.Addr, err error) {
	if a.unable[at] != err.Error() {
		a.unable[at] = err.Error()
		a.cfg.Log.Error("announce the address of a load balancer", "address", at, "err", err)
	}
}

// tell says a few times where addresses are that were not here.
func (a *Announcer) tell(wanted map[netip.Addr]bool) {
	here := map[netip.Addr]*link{}
	for _, l := range a.links {
		for _, at := range l.answered() {
			here[at] = l
			delete(a.unable, at)
		}
	}
	maps.DeleteFunc(a.unable, func(at netip.Addr, _ string) bool { return !wanted[at] })
	for at := range a.left {
		if here[at] == nil {
			delete(a.left, at)
		}
	}
	for at, l := range here {
		if l.fresh(at) {
			a.left[at] = times
		}
		if a.left[at] == 0 {
			continue
		}
		if err := l.tell(at); err != nil {
			a.cfg.Log.Warn("announce the address of a load balancer", "address", at, "link", l.ifi.Name, "err", err)
		}
		if a.left[at]--; a.left[at] == 0 {
			delete(a.left, at)
		}
	}
}

// place is an interface and its networks.
type place struct {
	net.Interface
	networks []netip.Prefix
}

// interfaces are those that have neighbours to tell.
func interfaces() (map[int]*place, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	out := map[int]*place{}
	for _, ifi := range all {
		if ifi.Flags&net.FlagUp == 0 || ifi.Flags&net.FlagBroadcast == 0 || ifi.Flags&net.FlagLoopback != 0 || len(ifi.HardwareAddr) != 6 {
			continue
		}
		addresses, err := ifi.Addrs()
		if err != nil {
			continue // it has gone
		}
		p := &place{Interface: ifi}
		for _, one := range addresses {
			if r, err := netip.ParsePrefix(one.String()); err == nil {
				p.networks = append(p.networks, r)
			}
		}
		out[ifi.Index] = p
	}
	return out, nil
}

// choose finds the link in whose network an address is, or else the node's own: of
// several networks the smallest, as routes go.
func choose(places map[int]*place, at, own netip.Addr) (index int, ok bool) {
	for _, address := range []netip.Addr{at, own} {
		longest := -1
		for _, i := range slices.Sorted(maps.Keys(places)) {
			for _, r := range places[i].networks {
				if r.Contains(address) && r.Bits() > longest && places[i].speaks(at) {
					index, longest = i, r.Bits()
				}
			}
		}
		if longest >= 0 {
			return index, true
		}
	}
	return 0, false
}

// speaks tells whether the interface has addresses of this one's family.
func (p *place) speaks(at netip.Addr) bool {
	return slices.ContainsFunc(p.networks, func(r netip.Prefix) bool { return r.Addr().Is4() == at.Is4() })
}
