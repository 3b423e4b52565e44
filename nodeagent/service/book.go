package service

import (
	"cmp"
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/nodeagent/forward"
)

// Book keeps the elements of all services, and what changed of them. It belongs
// to one goroutine.
type Book struct {
	node     Node
	services map[types.NamespacedName]*page
	claims   map[forward.Front][]*page
	virtual  map[netip.Addr]int
	hairpin  map[netip.Addr]int
	change   forward.Change
	// before is what fronts were when the change began.
	before map[forward.Front]*forward.Entry
}

// page is one service's. born orders those that claim one front.
type page struct {
	name types.NamespacedName
	born int64
	Elements
}

// NewBook gives an empty one.
func NewBook(node Node) *Book {
	return &Book{
		node: node, services: map[types.NamespacedName]*page{}, claims: map[forward.Front][]*page{},
		virtual: map[netip.Addr]int{}, hairpin: map[netip.Addr]int{}, change: forward.NewChange(), before: map[forward.Front]*forward.Entry{},
	}
}

// Put writes what a service is now; nil is that it is gone.
func (b *Book) Put(name types.NamespacedName, svc *v1.Service, slicesOf []*discoveryv1.EndpointSlice) {
	var now *page
	if svc != nil {
		now = &page{name: name, born: svc.CreationTimestamp.Unix(), Elements: Of(svc, slicesOf, b.node)}
	}
	old := b.services[name]
	if now != nil {
		for front := range now.Fronts {
			b.touch(front)
			b.claims[front] = append(b.claims[front], now)
		}
		b.count(now, 1)
	}
	if old != nil {
		for front := range old.Fronts {
			b.touch(front)
			b.claims[front] = slices.DeleteFunc(b.claims[front], func(p *page) bool { return p == old })
			if len(b.claims[front]) == 0 {
				delete(b.claims, front)
			}
		}
		b.count(old, -1)
	}
	if now == nil {
		delete(b.services, name)
	} else {
		b.services[name] = now
	}
}

// touch remembers what a front was before the first change of it.
func (b *Book) touch(front forward.Front) {
	if _, again := b.before[front]; !again {
		b.before[front] = b.entry(front)
	}
}

// entry is the one of who claims a front first.
func (b *Book) entry(front forward.Front) *forward.Entry {
	if p := b.first(front); p != nil {
		return p.Fronts[front]
	}
	return nil
}

func (b *Book) first(front forward.Front) *page {
	claims := b.claims[front]
	if len(claims) == 0 {
		return nil
	}
	return slices.MinFunc(claims, func(x, y *page) int {
		return cmp.Or(cmp.Compare(x.born, y.born), cmp.Compare(x.name.String(), y.name.String()))
	})
}

// Owner is the service that has a front, of several the oldest; no name if there
// is none.
func (b *Book) Owner(front forward.Front) types.NamespacedName {
	if p := b.first(front); p != nil {
		return p.name
	}
	return types.NamespacedName{}
}

// count keeps how many services have an address.
func (b *Book) count(p *page, by int) {
	for _, list := range []struct {
		addrs   []netip.Addr
		counted map[netip.Addr]int
		change  map[netip.Addr]bool
	}{{p.Virtual, b.virtual, b.change.Virtual}, {p.Hairpin, b.hairpin, b.change.Hairpin}} {
		for _, a := range list.addrs {
			was := list.counted[a]
			list.counted[a] = was + by
			if was+by == 0 {
				delete(list.counted, a)
			}
			if (was == 0) == (was+by == 0) {
				continue
			}
			if _, back := list.change[a]; back {
				delete(list.change, a)
			} else {
				list.change[a] = was == 0
			}
		}
	}
}

// Change gives what is different since it was asked last.
func (b *Book) Change() forward.Change {
	out := b.change
	for front, was := range b.before {
		if now := b.entry(front); !now.Equal(was) {
			out.Fronts[front] = now
		}
	}
	b.change, b.before = forward.NewChange(), map[forward.Front]*forward.Entry{}
	return out
}

// Health is what load balancers are told on a port.
type Health struct {
	Service    types.NamespacedName
	LocalReady int
}

// Len is how many services there are.
func (b *Book) Len() int { return len(b.services) }

// Health gives what to tell on which port; of two services with one port the
// older one has it.
func (b *Book) Health() map[uint16]Health {
	by := map[uint16]*page{}
	for _, p := range b.services {
		if p.HealthPort == 0 {
			continue
		}
		if has := by[p.HealthPort]; has == nil || cmp.Or(cmp.Compare(p.born, has.born), cmp.Compare(p.name.String(), has.name.String())) < 0 {
			by[p.HealthPort] = p
		}
	}
	out := map[uint16]Health{}
	for port, p := range by {
		out[port] = Health{p.name, p.LocalReady}
	}
	return out
}
