package dns

import (
	"encoding/binary"
	"net/netip"
	"strings"

	"github.com/miekg/dns"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// headless: its name stands for its endpoints.
func headless(s *v1.Service) bool {
	return s.Spec.Type != v1.ServiceTypeExternalName && s.Spec.ClusterIP == v1.ClusterIPNone
}

// addressesOf are a service's own addresses.
func addressesOf(s *v1.Service) []string {
	if len(s.Spec.ClusterIPs) > 0 {
		return s.Spec.ClusterIPs
	}
	if s.Spec.ClusterIP == "" {
		return nil
	}
	return []string{s.Spec.ClusterIP}
}

// builder makes the entries of one service.
type builder struct {
	zone     []byte
	own      []byte // the service's name before the zone
	names    map[string]*entry
	pointers []addressed
	seen     map[place]bool
}

// place is where something is said, which must not be said twice.
type place struct {
	at      *entry
	address netip.Addr
	service string // the port's name
	port    uint16
}

// once tells whether this is the first time.
func (b *builder) once(p place) bool {
	if b.seen[p] {
		return false
	}
	b.seen[p] = true
	return true
}

func newBuilder(zone []byte) *builder {
	return &builder{zone: zone, names: map[string]*entry{}, seen: map[place]bool{}}
}

type addressed struct {
	address netip.Addr
	name    []byte
}

// add takes an address.
func (e *entry) add(a netip.Addr) {
	if a.Is4() {
		e.a = append(e.a, a.AsSlice()...)
	} else {
		e.aaaa = append(e.aaaa, a.AsSlice()...)
	}
}

func (b *builder) service(s *v1.Service, slices map[string]*discoveryv1.EndpointSlice) {
	var ok bool
	if b.own, ok = appendLabels(nil, s.Name, s.Namespace, "svc"); !ok {
		return
	}
	b.names[string(b.own)] = nil
	switch {
	case s.Spec.Type == v1.ServiceTypeExternalName:
		if target, err := wireName(s.Spec.ExternalName); err == nil && len(target) > 1 {
			b.names[string(b.own)] = &entry{more: &more{target: target}}
		}
	case headless(s):
		b.headless(s, slices)
	default:
		b.clusterIP(s)
	}
}

// clusterIP: one name, whoever answers there.
func (b *builder) clusterIP(s *v1.Service) {
	e := &entry{}
	name := b.full(b.own)
	for _, text := range addressesOf(s) {
		if a, err := netip.ParseAddr(text); err == nil && b.once(place{at: e, address: a}) {
			e.add(a)
			b.pointers = append(b.pointers, addressed{a, name})
		}
	}
	if e.a == nil && e.aaaa == nil {
		return // it has none yet
	}
	b.names[string(b.own)] = e
	ports := map[string][]target{}
	for _, p := range s.Spec.Ports {
		if at, ok := b.port(e, p.Name, p.Protocol); ok {
			ports[at] = append(ports[at], target{b.own, uint16(p.Port), e})
		}
	}
	b.targets(ports)
}

// headless: the name has the addresses of all ready endpoints, and each endpoint
// a name of its own below.
func (b *builder) headless(s *v1.Service, all map[string]*discoveryv1.EndpointSlice) {
	e := &entry{}
	ports := map[string][]target{}
	for _, slice := range all {
		for i := range slice.Endpoints {
			end := &slice.Endpoints[i]
			if !s.Spec.PublishNotReadyAddresses && end.Conditions.Ready != nil && !*end.Conditions.Ready {
				continue
			}
			for _, text := range end.Addresses {
				if a, err := netip.ParseAddr(text); err == nil {
					b.endpoint(e, ports, slice, end, a.Unmap())
				}
			}
		}
	}
	if e.a == nil && e.aaaa == nil {
		return // by the specification there is no such name then
	}
	b.names[string(b.own)] = e
	b.targets(ports)
}

func (b *builder) endpoint(service *entry, ports map[string][]target, slice *discoveryv1.EndpointSlice, end *discoveryv1.Endpoint, a netip.Addr) {
	host := strings.Map(func(r rune) rune {
		if r == '.' || r == ':' {
			return '-'
		}
		return r
	}, a.String())
	if end.Hostname != nil && *end.Hostname != "" {
		host = *end.Hostname
	}
	name, ok := appendLabels(nil, host)
	if !ok {
		return
	}
	name = append(name, b.own...)
	e := b.names[string(name)]
	if e == nil {
		e = &entry{}
		b.names[string(name)] = e
	}
	if b.once(place{at: service, address: a}) {
		service.add(a)
	}
	if b.once(place{at: e, address: a}) {
		e.add(a)
		b.pointers = append(b.pointers, addressed{a, b.full(name)})
	}
	for _, p := range slice.Ports {
		if p.Name == nil || p.Port == nil {
			continue
		}
		protocol := v1.ProtocolTCP
		if p.Protocol != nil {
			protocol = *p.Protocol
		}
		at, ok := b.port(service, *p.Name, protocol)
		if !ok {
			continue
		}
		if b.once(place{at: e, service: at, port: uint16(*p.Port)}) {
			ports[at] = append(ports[at], target{name, uint16(*p.Port), e})
		}
	}
}

// target is where a port is.
type target struct {
	name []byte // before the zone
	port uint16
	at   *entry
}

// port gives the name of a named port.
func (b *builder) port(service *entry, name string, protocol v1.Protocol) (string, bool) {
	bit := protocolBit(strings.ToLower(string(protocol)))
	if name == "" || bit == 0 {
		return "", false
	}
	at, ok := appendLabels(nil, "_"+name, "_"+string(protocol))
	if !ok {
		return "", false
	}
	service.below |= bit
	return string(at) + string(b.own), true
}

func protocolBit(name string) uint8 {
	switch name {
	case "tcp":
		return 1
	case "udp":
		return 2
	case "sctp":
		return 4
	}
	return 0
}

func (b *builder) full(name []byte) []byte {
	return append(append(make([]byte, 0, len(name)+len(b.zone)), name...), b.zone...)
}

// targets makes the SRV records of ports, and has the targets' addresses follow:
// all offsets are known, as the question before them has the port's name.
func (b *builder) targets(ports map[string][]target) {
	for at, all := range ports {
		m := &more{}
		start := headerLen + len(at) + len(b.zone) + 4
		weight := uint16(max(1, 100/len(all)))
		places := make([]int, len(all))
		for i, t := range all {
			name := b.full(t.name)
			m.srv = record(m.srv, headerLen, dns.TypeSRV, 6+len(name))
			m.srv = binary.BigEndian.AppendUint16(m.srv, 0)
			m.srv = binary.BigEndian.AppendUint16(m.srv, weight)
			m.srv = binary.BigEndian.AppendUint16(m.srv, t.port)
			places[i] = start + len(m.srv)
			m.srv = append(m.srv, name...)
		}
		for i, t := range all {
			if places[i] > 0x3FFF {
				break // too far away to point to: such a reply goes without
			}
			m.extra = addresses(m.extra, places[i], t.at.a, 4)
			m.extra = addresses(m.extra, places[i], t.at.aaaa, 16)
		}
		b.names[at] = &entry{more: m}
	}
}

// addresses makes records of addresses that lie end to end.
func addresses(buf []byte, owner int, all []byte, length int) []byte {
	rtype := dns.TypeA
	if length == 16 {
		rtype = dns.TypeAAAA
	}
	for i := 0; i < len(all); i += length {
		buf = append(record(buf, owner, rtype, length), all[i:i+length]...)
	}
	return buf
}
