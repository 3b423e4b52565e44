package dns

import (
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// What is kept of others' answers.
const (
	maxEntries   = 10_000
	maxBytes     = 16 << 20
	maxPositive  = time.Hour
	maxNegative  = 30 * time.Minute
	staleFor     = 24 * time.Hour // after its time, if nobody answers anew
	staleSeconds = 30             // the TTL that such an answer has (RFC 8767)
)

// cache keeps answers as they go out, save for what differs between clients.
type cache struct {
	mu      sync.RWMutex
	entries map[string]*kept
	bytes   int
}

// kept is an answer of others: what follows its question.
type kept struct {
	flags   uint16
	counts  [3]uint16
	body    []byte
	records []span
	stored  time.Time
	until   time.Time // it is fresh
}

// cacheKey says what an answer depends on.
func cacheKey(buf []byte, q *query) []byte {
	bits := byte(0)
	if q.secure {
		bits |= 1
	}
	if q.flags&unchecked != 0 {
		bits |= 2
	}
	return append(append(buf[:0], q.name()...), byte(q.qtype>>8), byte(q.qtype), bits)
}

// get finds what is kept; fresh: its time has not passed.
func (c *cache) get(key []byte, now time.Time) (k *kept, fresh bool) {
	c.mu.RLock()
	k = c.entries[string(key)]
	c.mu.RUnlock()
	if k == nil || now.After(k.until.Add(staleFor)) {
		return nil, false
	}
	return k, now.Before(k.until)
}

// put keeps an answer, in the place of those that are nearest to their end.
func (c *cache) put(key string, k *kept) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(key)
	for len(c.entries) > 0 && (len(c.entries) >= maxEntries || c.bytes+k.cost(key) > maxBytes) {
		c.evict()
	}
	c.entries[key] = k
	c.bytes += k.cost(key)
}

func (k *kept) cost(key string) int { return len(key) + len(k.body) + 8*len(k.records) + 200 }

func (c *cache) drop(key string) {
	if old := c.entries[key]; old != nil {
		c.bytes -= old.cost(key)
		delete(c.entries, key)
	}
}

// evict looks at a few, which a map gives in no order, and takes the oldest.
func (c *cache) evict() {
	var worst string
	var until time.Time
	seen := 0
	for key, k := range c.entries {
		if seen == 0 || k.until.Before(until) {
			worst, until = key, k.until
		}
		if seen++; seen == 8 {
			break
		}
	}
	c.drop(worst)
}

func (c *cache) size() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.entries)
}

// span is where a record's TTL lies in the body, and where the record ends.
type span struct{ ttl, end uint16 }

// reply writes an answer for a client, aged by the time it was kept.
func (k *kept) reply(buf []byte, q *query, now time.Time) []byte {
	buf = q.begin(buf)
	start, room := len(buf), q.room()
	end, counts, flags := len(k.body), k.counts, k.flags&^15
	if !q.secure && q.flags&authentic == 0 {
		flags &^= authentic // it did not ask for that
	}
	if end > room {
		end, counts = k.cut(room)
		if counts[0] < k.counts[0] || counts[1] < k.counts[1] {
			flags |= truncated
		}
	}
	buf = append(buf, k.body[:end]...)
	age, stale := uint32(max(0, now.Sub(k.stored)/time.Second)), !now.Before(k.until)
	for _, r := range k.records {
		if int(r.end) > end {
			break
		}
		at := buf[start+int(r.ttl):]
		left := binary.BigEndian.Uint32(at)
		switch {
		case stale:
			left = staleSeconds
		case left > age:
			left -= age
		default:
			left = 0
		}
		binary.BigEndian.PutUint32(at, left)
	}
	return q.finish(buf, int(k.flags&15), flags, int(counts[0]), int(counts[1]), int(counts[2]))
}

// cut leaves whole records only.
func (k *kept) cut(room int) (end int, counts [3]uint16) {
	n := 0
	for section, count := range k.counts {
		for range count {
			if int(k.records[n].end) > room {
				return end, counts
			}
			end = int(k.records[n].end)
			counts[section]++
			n++
		}
	}
	return end, counts
}

// failed: it says neither what there is nor that there is nothing.
func (k *kept) failed() bool {
	rcode := int(k.flags & 15)
	return rcode != dns.RcodeSuccess && rcode != dns.RcodeNameError
}

// keep turns an answer of others into what is kept, which is fresh for as long as
// the records say, or not at all. What it says of its sender goes.
func keep(m *dns.Msg, now time.Time) (*kept, error) {
	m.Extra = withoutOptions(m.Extra)
	m.Compress = true
	wire, err := m.Pack()
	if err != nil {
		return nil, err
	}
	k, err := parseKept(wire)
	if err != nil {
		return nil, err
	}
	k.stored, k.until = now, now.Add(freshness(m))
	return k, nil
}

func withoutOptions(all []dns.RR) []dns.RR {
	var out []dns.RR
	for _, r := range all {
		switch r.Header().Rrtype {
		case dns.TypeOPT, dns.TypeTSIG, dns.TypeSIG:
		default:
			out = append(out, r)
		}
	}
	return out
}

// freshness follows the records' TTLs, and RFC 2308 where there is no answer.
func freshness(m *dns.Msg) time.Duration {
	if m.Rcode != dns.RcodeSuccess && m.Rcode != dns.RcodeNameError || m.Truncated {
		return 0
	}
	negative := m.Rcode == dns.RcodeNameError || !answers(m)
	limit := maxPositive
	if negative {
		limit = 0 // without an SOA it is nobody's word
		for _, r := range m.Ns {
			if soa, ok := r.(*dns.SOA); ok {
				limit = min(maxNegative, time.Duration(soa.Minttl)*time.Second)
			}
		}
	}
	for _, section := range [][]dns.RR{m.Answer, m.Ns, m.Extra} {
		for _, r := range section {
			limit = min(limit, time.Duration(r.Header().Ttl)*time.Second)
		}
	}
	return limit
}

// answers: it has what was asked for, not only aliases.
func answers(m *dns.Msg) bool {
	for _, r := range m.Answer {
		if len(m.Question) == 1 && (r.Header().Rrtype == m.Question[0].Qtype) {
			return true
		}
	}
	return false
}

var errBody = errors.New("malformed answer")

// parseKept reads where the records of a message lie.
func parseKept(wire []byte) (*kept, error) {
	if len(wire) < headerLen || binary.BigEndian.Uint16(wire[4:]) != 1 || len(wire) > dns.MaxMsgSize {
		return nil, errBody
	}
	_, at, err := dns.UnpackDomainName(wire, headerLen)
	if err != nil || at+4 > len(wire) {
		return nil, errBody
	}
	start := at + 4
	at = start
	k := &kept{flags: binary.BigEndian.Uint16(wire[2:]) & (authentic | 15)}
	for section := range k.counts {
		k.counts[section] = binary.BigEndian.Uint16(wire[6+2*section:])
		for range k.counts[section] {
			_, next, err := dns.UnpackDomainName(wire, at)
			if err != nil || next+10 > len(wire) {
				return nil, errBody
			}
			at = next + 10 + int(binary.BigEndian.Uint16(wire[next+8:]))
			if at > len(wire) {
				return nil, errBody
			}
			k.records = append(k.records, span{uint16(next + 4 - start), uint16(at - start)})
		}
	}
	k.body = wire[start:at:at]
	return k, nil
}
