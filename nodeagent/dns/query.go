package dns

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/miekg/dns"
)

// Sizes of messages. bestUDP is what passes most links in one piece.
const (
	headerLen = 12
	bestUDP   = 1232
	maxName   = 255
	optLen    = 11
)

// Bits of a header's flags.
const (
	isResponse    = 1 << 15
	opcodes       = 15 << 11
	authoritative = 1 << 10
	truncated     = 1 << 9
	wantRecursion = 1 << 8
	hasRecursion  = 1 << 7
	authentic     = 1 << 5
	unchecked     = 1 << 4
)

// query is a question as it came, and what its header and EDNS say.
type query struct {
	packet []byte // of which header and question are valid
	end    int    // of the question
	flags  uint16
	qtype  uint16
	size   int // of the largest reply that the client takes
	edns   bool
	secure bool // it wants DNSSEC's records

	lower [maxName]byte // the name in wire form, lower case
	n     int           // of lower
}

var (
	errIgnore = errors.New("not a query")
	errFormat = errors.New("malformed")
)

// name is the question's name in wire form, lower case.
func (q *query) name() []byte { return q.lower[:q.n] }

// asked is the question's name as the client wrote it.
func (q *query) asked() []byte { return q.packet[headerLen : headerLen+q.n] }

// text is the question's name in text form, lower case.
func (q *query) text() string {
	s, _, err := dns.UnpackDomainName(q.name(), 0)
	if err != nil {
		return "."
	}
	return s
}

// parse reads a packet. rcode is what to answer where it is not a question that
// can be; errIgnore and errFormat are answered by nothing but, at most, a header.
func (q *query) parse(packet []byte, tcp bool) (rcode int, err error) {
	if len(packet) < headerLen {
		return 0, errIgnore
	}
	q.packet, q.edns, q.secure, q.size = packet, false, false, 512
	if tcp {
		q.size = dns.MaxMsgSize
	}
	q.flags = binary.BigEndian.Uint16(packet[2:])
	if q.flags&isResponse != 0 {
		return 0, errIgnore // an answer to an answer may never end
	}
	if q.flags&opcodes != 0 {
		return dns.RcodeNotImplemented, errFormat
	}
	counts := packet[4:]
	if binary.BigEndian.Uint16(counts) != 1 || binary.BigEndian.Uint16(counts[2:]) != 0 || binary.BigEndian.Uint16(counts[4:]) != 0 {
		return dns.RcodeFormatError, errFormat
	}
	at, ok := q.readName()
	if !ok || len(packet) < at+4 {
		return dns.RcodeFormatError, errFormat
	}
	q.qtype = binary.BigEndian.Uint16(packet[at:])
	class := binary.BigEndian.Uint16(packet[at+2:])
	q.end = at + 4
	if rcode := q.options(int(binary.BigEndian.Uint16(counts[6:])), tcp); rcode != 0 {
		return rcode, nil
	}
	if class != dns.ClassINET || refused(q.qtype) {
		return dns.RcodeRefused, nil
	}
	return 0, nil
}

// refused are types that name no record: transfers, ANY, and those of
// transactions.
func refused(qtype uint16) bool {
	return qtype == 0 || qtype == dns.TypeOPT || qtype >= 128 && qtype <= 255
}

// readName copies the question's name in lower case. A pointer has nothing to
// point to there.
func (q *query) readName() (end int, ok bool) {
	at := headerLen
	q.n = 0
	for at < len(q.packet) {
		l := int(q.packet[at])
		if l > 63 || q.n+l+1 > maxName || at+l+1 > len(q.packet) {
			return 0, false
		}
		q.lower[q.n] = byte(l)
		for i, c := range q.packet[at+1 : at+1+l] {
			q.lower[q.n+1+i] = lower(c)
		}
		q.n, at = q.n+l+1, at+l+1
		if l == 0 {
			return at, true
		}
	}
	return 0, false
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// options reads the additional records: EDNS, and others that are passed over.
func (q *query) options(count int, tcp bool) (rcode int) {
	at := q.end
	for range count {
		root := at < len(q.packet) && q.packet[at] == 0
		_, next, err := dns.UnpackDomainName(q.packet, at)
		if err != nil || len(q.packet) < next+10 {
			return dns.RcodeFormatError
		}
		fixed := q.packet[next:]
		at = next + 10 + int(binary.BigEndian.Uint16(fixed[8:]))
		if at > len(q.packet) {
			return dns.RcodeFormatError
		}
		if binary.BigEndian.Uint16(fixed) != dns.TypeOPT {
			continue
		}
		if !root || q.edns {
			return dns.RcodeFormatError
		}
		q.edns, q.secure = true, fixed[6]&0x80 != 0
		if !tcp {
			q.size = min(max(int(binary.BigEndian.Uint16(fixed[2:])), 512), bestUDP)
		}
		if fixed[5] != 0 {
			return dns.RcodeBadVers
		}
	}
	return 0
}

// room is how much of a reply is left to records after the question.
func (q *query) room() int {
	n := q.size - q.end
	if q.edns {
		n -= optLen
	}
	return n
}

// begin writes header and question into buf; records follow, then finish.
func (q *query) begin(buf []byte) []byte {
	buf = append(buf[:0], q.packet[:q.end]...)
	clear(buf[2:headerLen])
	buf[5] = 1
	return buf
}

// finish writes what is only known in the end: flags, counts, EDNS.
func (q *query) finish(buf []byte, rcode int, flags uint16, answers, authorities, extras int) []byte {
	if q.edns {
		buf = append(buf, 0, 0, byte(dns.TypeOPT), bestUDP>>8, bestUDP&255, byte(rcode>>4), 0, 0, 0, 0, 0)
		if q.secure {
			buf[len(buf)-4] = 0x80
		}
		extras++
	}
	flags |= isResponse | hasRecursion | q.flags&(wantRecursion|unchecked) | uint16(rcode&15)
	binary.BigEndian.PutUint16(buf[2:], flags)
	binary.BigEndian.PutUint16(buf[6:], uint16(answers))
	binary.BigEndian.PutUint16(buf[8:], uint16(authorities))
	binary.BigEndian.PutUint16(buf[10:], uint16(extras))
	return buf
}

// fail answers with a code and no records.
func (q *query) fail(buf []byte, rcode int) []byte {
	return q.finish(q.begin(buf), rcode, 0, 0, 0, 0)
}

// broken answers a packet that could not be read, by its header alone.
func broken(buf, packet []byte, rcode int) []byte {
	buf = append(buf[:0], packet[:headerLen]...)
	flags := binary.BigEndian.Uint16(packet[2:])
	binary.BigEndian.PutUint16(buf[2:], isResponse|flags&(opcodes|wantRecursion)|uint16(rcode&15))
	clear(buf[4:])
	return buf
}

// cut takes the zone off a name, both in wire form; ok: the name lies in it.
func cut(name, zone []byte) (rest []byte, ok bool) {
	at := len(name) - len(zone)
	if at < 0 || !bytes.Equal(name[at:], zone) {
		return nil, false
	}
	for i := 0; i < at; { // at is the start of a label, or only looks like one
		if i += int(name[i]) + 1; i > at {
			return nil, false
		}
	}
	return name[:at], true
}

// label takes the first label off a name without its end.
func label(name []byte) (first, rest []byte) {
	if len(name) == 0 {
		return nil, nil
	}
	n := int(name[0]) + 1
	return name[1:n], name[n:]
}
