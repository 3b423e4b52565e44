package dns

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"

	"github.com/miekg/dns"
)

// outcome is who has to answer a question.
type outcome int

const (
	// answered: the reply is whole.
	answered outcome = iota
	// absent: the reply says that there is no such name; a search may go on.
	absent
	// elsewhere: the name is not the cluster's.
	elsewhere
	// alias: the name is another one's, and the reply has only the CNAME.
	alias
)

// reverse zones in wire form.
var (
	reverse4 = []byte("\x07in-addr\x04arpa\x00")
	reverse6 = []byte("\x03ip6\x04arpa\x00")
)

// zone answers for the cluster.
type zone struct {
	*Index
	// ranges are the cluster's: none of their addresses is asked of others.
	ranges []netip.Prefix
}

// answer replies into buf, for what is the cluster's.
func (z *zone) answer(buf []byte, q *query) ([]byte, outcome) {
	if rest, ok := cut(q.name(), z.zone); ok {
		return z.forward(buf, q, rest)
	}
	if a, apex, ok := reverseAddress(q.name()); ok {
		return z.backward(buf, q, a, apex)
	}
	return buf, elsewhere
}

// forward answers for a name of the cluster's domain.
func (z *zone) forward(buf []byte, q *query, rest []byte) ([]byte, outcome) {
	z.mu.RLock()
	defer z.mu.RUnlock()
	apex := headerLen + len(rest)
	e := z.entry(rest)
	if e == nil {
		return z.negative(buf, q, dns.RcodeNameError, apex), absent
	}
	buf = q.begin(buf)
	if m := e.more; m != nil && m.target != nil {
		buf = append(record(buf, headerLen, dns.TypeCNAME, len(m.target)), m.target...)
		reply := q.finish(buf, 0, authoritative, 1, 0, 0)
		if q.qtype == dns.TypeCNAME {
			return reply, answered
		}
		return reply, alias
	}
	start := len(buf)
	buf, n, extras, short := z.records(buf, q, e, rest)
	if len(buf) == start && n == 0 && short&truncated == 0 {
		return z.negative(buf, q, dns.RcodeSuccess, apex), answered
	}
	return q.finish(buf, 0, authoritative|short, n, 0, extras), answered
}

// records puts what an entry has of the type that is asked for; flags say whether
// some did not fit.
func (z *zone) records(buf []byte, q *query, e *entry, rest []byte) (_ []byte, n, extras int, flags uint16) {
	m := e.more
	switch {
	case q.qtype == dns.TypeA:
		buf, n, flags = q.addresses(buf, e.a, 4)
	case q.qtype == dns.TypeAAAA:
		buf, n, flags = q.addresses(buf, e.aaaa, 16)
	case q.qtype == dns.TypeSRV && m != nil && m.srv != nil:
		return q.services(buf, m.srv, m.extra)
	case q.qtype == dns.TypeTXT && m != nil && m.text != "":
		return append(append(record(buf, headerLen, dns.TypeTXT, len(m.text)+1), byte(len(m.text))), m.text...), 1, 0, 0
	case q.qtype == dns.TypeSOA && len(rest) == 0:
		return z.soa(buf, headerLen+len(rest)), 1, 0, 0
	case q.qtype == dns.TypeNS && len(rest) == 0:
		return append(record(buf, headerLen, dns.TypeNS, len(z.server)), z.server...), 1, 0, 0
	}
	return buf, n, 0, flags
}

// entry is what there is at a name, nil if there is none. It is for who holds mu.
func (z *zone) entry(rest []byte) *entry {
	if e := z.names[string(rest)]; e != nil {
		return e
	}
	if pod, ok := podName(rest); ok {
		return pod
	}
	if z.between(rest) {
		return &entry{}
	}
	return nil
}

// services puts as many SRV records as fit, and beside all of them the addresses
// of their targets that fit too.
func (q *query) services(buf, srv, extra []byte) (_ []byte, n, extras int, flags uint16) {
	n, end := fit(srv, q.room())
	buf = append(buf, srv[:end]...)
	if end < len(srv) {
		return buf, n, 0, truncated
	}
	extras, end = fit(extra, q.room()-end)
	return append(buf, extra[:end]...), n, extras, 0
}

// addresses puts as many as fit, each time in another order, so that clients who
// take the first spread.
func (q *query) addresses(buf, all []byte, length int) (_ []byte, n int, flags uint16) {
	count := len(all) / length
	if n = min(count, q.room()/(fixed+length)); n < count {
		flags = truncated
	}
	start := len(buf)
	rtype := dns.TypeA
	if length == 16 {
		rtype = dns.TypeAAAA
	}
	first := 0
	if count > 1 {
		first = rand.IntN(count)
	}
	for i := range n {
		at := (first + i) % count * length
		buf = append(record(buf, headerLen, rtype, length), all[at:at+length]...)
	}
	size := fixed + length
	for i := n - 1; i > 0; i-- {
		if j := rand.IntN(i + 1); i != j {
			a, b := buf[start+i*size:start+(i+1)*size], buf[start+j*size:start+(j+1)*size]
			for k := fixed; k < size; k++ {
				a[k], b[k] = b[k], a[k]
			}
		}
	}
	return buf, n, flags
}

// podName is the name of an address: a-b-c-d.namespace.pod.
func podName(rest []byte) (*entry, bool) {
	first, rest := label(rest)
	if _, rest = label(rest); len(first) == 0 || string(rest) != "\x03pod" {
		return nil, false
	}
	a, ok := dashed(first)
	if !ok {
		return nil, false
	}
	e := &entry{}
	e.add(a)
	return e, true
}

// dashed reads 10-0-0-1 and fd00--1.
func dashed(text []byte) (netip.Addr, bool) {
	dots, colons := make([]byte, len(text)), make([]byte, len(text))
	for i, c := range text {
		dots[i], colons[i] = c, c
		if c == '-' {
			dots[i], colons[i] = '.', ':'
		}
	}
	a, err := netip.ParseAddr(string(dots))
	if err != nil {
		a, err = netip.ParseAddr(string(colons))
	}
	return a, err == nil && !a.Is4In6() && a.Zone() == ""
}

func within(ranges []netip.Prefix, a netip.Addr) bool {
	for _, r := range ranges {
		if r.Contains(a) {
			return true
		}
	}
	return false
}

// between: the name has no records, but others lie below it.
func (z *zone) between(rest []byte) bool {
	first, after := label(rest)
	if len(first) > 1 && first[0] == '_' {
		e := z.names[string(after)]
		return e != nil && e.below&protocolBit(string(first[1:])) != 0
	}
	return (string(after) == "\x03svc" || string(after) == "\x03pod") && z.namespaces[string(first)] > 0
}

// backward answers for an address's name.
func (z *zone) backward(buf []byte, q *query, a netip.Addr, apex int) ([]byte, outcome) {
	z.mu.RLock()
	defer z.mu.RUnlock()
	names := z.reverse[a]
	if len(names) == 0 {
		if within(z.ranges, a) {
			return z.negative(buf, q, dns.RcodeNameError, apex), answered
		}
		return buf, elsewhere
	}
	if q.qtype != dns.TypePTR {
		return z.negative(buf, q, dns.RcodeSuccess, apex), answered
	}
	buf = q.begin(buf)
	n, room, flags := 0, q.room(), uint16(authoritative)
	for _, p := range names {
		if room -= fixed + len(p.name); room < 0 {
			flags |= truncated
			break
		}
		buf = append(record(buf, headerLen, dns.TypePTR, len(p.name)), p.name...)
		n++
	}
	return q.finish(buf, 0, flags, n, 0, 0), answered
}

// reverseAddress reads d.c.b.a.in-addr.arpa and its like of IPv6; apex is where
// the zone's name lies in the message.
func reverseAddress(name []byte) (a netip.Addr, apex int, ok bool) {
	if rest, is := cut(name, reverse4); is {
		a, ok = reversed4(rest)
		return a, headerLen + len(name) - len(reverse4), ok
	}
	if rest, is := cut(name, reverse6); is {
		a, ok = reversed6(rest)
		return a, headerLen + len(rest), ok
	}
	return a, 0, false
}

// reversed4 reads four decimal labels, the last byte first.
func reversed4(rest []byte) (a netip.Addr, ok bool) {
	var raw [4]byte
	for i := 3; i >= 0; i-- {
		var l []byte
		l, rest = label(rest)
		if raw[i], ok = decimal(l); !ok {
			return a, false
		}
	}
	return netip.AddrFrom4(raw), len(rest) == 0
}

// decimal reads a byte without leading zeros.
func decimal(l []byte) (byte, bool) {
	if len(l) == 0 || len(l) > 3 || len(l) > 1 && l[0] == '0' {
		return 0, false
	}
	n := 0
	for _, c := range l {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return byte(n), n <= 255
}

// reversed6 reads 32 labels of one hexadecimal digit, the last first.
func reversed6(rest []byte) (a netip.Addr, ok bool) {
	if len(rest) != 64 {
		return a, false
	}
	var raw [16]byte
	for i := range 32 {
		c := rest[2*i+1]
		switch {
		case rest[2*i] != 1:
			return a, false
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		default:
			return a, false
		}
		raw[15-i/2] |= c << (4 * (i % 2))
	}
	return netip.AddrFrom16(raw), true
}

// negative says that there is no such name, or none of that type, and by the
// SOA for how long.
func (z *zone) negative(buf []byte, q *query, rcode, apex int) []byte {
	buf = z.soa(q.begin(buf), apex)
	return q.finish(buf, rcode, authoritative, 0, 1, 0)
}

func (z *zone) soa(buf []byte, apex int) []byte {
	buf = record(buf, apex, dns.TypeSOA, len(z.server)+len(z.host)+20)
	buf = append(append(buf, z.server...), z.host...)
	for _, n := range []uint32{z.serial, 7200, 1800, 86400, ttl} {
		buf = binary.BigEndian.AppendUint32(buf, n)
	}
	return buf
}
