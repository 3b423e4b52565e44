package dns

import (
	"bytes"
	"net/netip"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Index has what is said of each name of the cluster. Services and slices may
// come in any order, at any time; queries see each change whole.
type Index struct {
	zone   []byte // the cluster's domain, in wire form
	server []byte // the name server's name, in wire form
	host   []byte // whom the SOA names as responsible

	// change is held by who changes the index, and guards what changes are
	// made from.
	change   sync.Mutex
	services map[key]*v1.Service
	slices   map[key]map[string]*discoveryv1.EndpointSlice // by service
	owns     map[key]published

	// mu guards what queries read.
	mu         sync.RWMutex
	names      map[string]*entry // by what comes before the zone, in wire form; nil for a service that has no address
	reverse    map[netip.Addr][]pointer
	namespaces map[string]int // how many services each has
	serial     uint32
}

type key struct{ namespace, name string }

// published is what stands in the index because of one service.
type published struct {
	names     []string
	addresses []netip.Addr
}

// pointer is a name that an address has.
type pointer struct {
	of   key
	name []byte // in wire form
}

// entry is what is said of one name. All lies end to end as it goes out.
type entry struct {
	a, aaaa []byte
	more    *more
	// below are the protocols _tcp, _udp, _sctp that have names below this one.
	below uint8
}

// more is what few names have.
type more struct {
	srv    []byte // whole records
	extra  []byte // addresses of their targets
	target []byte // the CNAME, in wire form
	text   string // its TXT record
}

// NewIndex gives the index of a domain, such as cluster.local, that has the
// name server's own addresses.
func NewIndex(domain string, servers ...netip.Addr) (*Index, error) {
	zone, err := wireName(domain)
	if err != nil {
		return nil, err
	}
	x := &Index{
		zone: zone, server: append([]byte("\x02ns\x03dns"), zone...), host: append([]byte("\x0ahostmaster"), zone...),
		services: map[key]*v1.Service{}, slices: map[key]map[string]*discoveryv1.EndpointSlice{}, owns: map[key]published{},
		names: map[string]*entry{}, reverse: map[netip.Addr][]pointer{}, namespaces: map[string]int{},
	}
	own := &entry{}
	for _, a := range servers {
		own.add(a)
	}
	for name, e := range map[string]*entry{
		"": {}, "svc": {}, "pod": {}, "dns": {}, "ns.dns": own, "dns-version": {more: &more{text: "1.1.0"}},
	} {
		wire, err := wireName(name)
		if err != nil {
			return nil, err
		}
		x.names[string(wire[:len(wire)-1])] = e
	}
	return x, nil
}

// SetService takes a service as it is now.
func (x *Index) SetService(s *v1.Service) {
	x.change.Lock()
	defer x.change.Unlock()
	k := key{s.Namespace, s.Name}
	old := x.services[k]
	x.services[k] = s
	if old == nil || !sameNames(old, s) {
		x.publish(k)
	}
}

// sameNames tells whether two states of a service give the same answers.
func sameNames(a, b *v1.Service) bool {
	return a.Spec.Type == b.Spec.Type && a.Spec.ExternalName == b.Spec.ExternalName && slices.Equal(addressesOf(a), addressesOf(b)) &&
		a.Spec.PublishNotReadyAddresses == b.Spec.PublishNotReadyAddresses &&
		slices.EqualFunc(a.Spec.Ports, b.Spec.Ports, func(p, q v1.ServicePort) bool {
			return p.Name == q.Name && p.Port == q.Port && p.Protocol == q.Protocol
		})
}

// DeleteService forgets a service.
func (x *Index) DeleteService(namespace, name string) {
	x.change.Lock()
	defer x.change.Unlock()
	k := key{namespace, name}
	if _, ok := x.services[k]; ok {
		delete(x.services, k)
		x.publish(k)
	}
}

// SetSlice takes a slice of endpoints as it is now.
func (x *Index) SetSlice(s *discoveryv1.EndpointSlice) {
	x.change.Lock()
	defer x.change.Unlock()
	of := serviceOf(s)
	if of.name == "" || s.AddressType == discoveryv1.AddressTypeFQDN {
		return
	}
	if x.slices[of] == nil {
		x.slices[of] = map[string]*discoveryv1.EndpointSlice{}
	}
	x.slices[of][s.Name] = s
	x.refresh(of)
}

// DeleteSlice forgets a slice. It is given the last that was known of it.
func (x *Index) DeleteSlice(s *discoveryv1.EndpointSlice) {
	x.change.Lock()
	defer x.change.Unlock()
	of := serviceOf(s)
	delete(x.slices[of], s.Name)
	if len(x.slices[of]) == 0 {
		delete(x.slices, of)
	}
	x.refresh(of)
}

func serviceOf(s *discoveryv1.EndpointSlice) key {
	return key{s.Namespace, s.Labels[discoveryv1.LabelServiceName]}
}

// refresh follows the endpoints of a service, if any answer names them.
func (x *Index) refresh(of key) {
	if s := x.services[of]; s != nil && headless(s) {
		x.publish(of)
	}
}

// publish puts what a service says now in the place of what it said.
func (x *Index) publish(of key) {
	b := newBuilder(x.zone)
	s, had := x.services[of], x.owns[of]
	if s != nil {
		b.service(s, x.slices[of])
	}
	var now published
	for name := range b.names {
		now.names = append(now.names, name)
	}
	for _, p := range b.pointers {
		now.addresses = append(now.addresses, p.address)
	}
	_, was := x.owns[of]
	if s != nil {
		x.owns[of] = now
	} else {
		delete(x.owns, of)
	}

	x.mu.Lock()
	defer x.mu.Unlock()
	x.serial++
	x.replaceNames(had.names, b.names)
	x.replacePointers(of, had.addresses, b.pointers)
	switch {
	case s != nil && !was:
		x.namespaces[of.namespace]++
	case s == nil && was:
		if x.namespaces[of.namespace]--; x.namespaces[of.namespace] == 0 {
			delete(x.namespaces, of.namespace)
		}
	}
}

// replaceNames is for who holds mu.
func (x *Index) replaceNames(had []string, now map[string]*entry) {
	for _, name := range had {
		if now[name] == nil {
			delete(x.names, name)
		}
	}
	for name, e := range now {
		x.names[name] = e
	}
}

// replacePointers is for who holds mu.
func (x *Index) replacePointers(of key, had []netip.Addr, now []addressed) {
	for _, a := range had {
		left := slices.DeleteFunc(slices.Clone(x.reverse[a]), func(p pointer) bool { return p.of == of })
		if x.reverse[a] = left; len(left) == 0 {
			delete(x.reverse, a)
		}
	}
	for _, p := range now {
		if have := x.reverse[p.address]; !slices.ContainsFunc(have, func(o pointer) bool { return bytes.Equal(o.name, p.name) }) {
			x.reverse[p.address] = append(have, pointer{of, p.name})
		}
	}
}

// hasService tells whether a name is a service's, whatever it is answered by.
func (x *Index) hasService(name []byte) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	_, has := x.names[string(name)]
	return has
}

// size counts names and addresses, for metrics.
func (x *Index) size() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.names) + len(x.reverse)
}
