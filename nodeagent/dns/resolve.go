package dns

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
)

const servfail = dns.RcodeServerFailure

// responseTimeout is how long a client waits for others while there is an old answer
// (RFC 8767).
const responseTimeout = 1800 * time.Millisecond

// longest is how many names an answer may lead through.
const longest = 8

// atOnce answers what needs nobody else. done: there is a reply, or none is to
// be given.
func (s *Server) atOnce(out []byte, q *query, packet []byte, tcp bool) (reply []byte, done bool) {
	rcode, err := q.parse(packet, tcp)
	switch {
	case errors.Is(err, errIgnore):
		return nil, true
	case err != nil:
		s.counts.refused.Add(1)
		return broken(out, packet, rcode), true
	case rcode != 0:
		s.counts.refused.Add(1)
		return q.fail(out, rcode), true
	}
	reply, what := s.zone.answer(out, q)
	if what != elsewhere && !s.cfg.Synced() {
		s.counts.cluster.Add(1)
		return q.fail(out, servfail), true
	}
	switch what {
	case elsewhere:
		if q.qtype == dns.TypeHINFO && s.forward.looped(q.text()) {
			return q.fail(out, dns.RcodeRefused), true
		}
		var buf [maxName + 3]byte
		if k, fresh := s.cache.get(cacheKey(buf[:], q), time.Now()); fresh {
			s.counts.cached.Add(1)
			return k.reply(out, q, time.Now()), true
		}
		return nil, false
	case alias:
		return nil, false
	case absent:
		if q.qtype == dns.TypeA || q.qtype == dns.TypeAAAA {
			if _, _, ok := s.zone.searched(q); ok {
				return nil, false
			}
		}
	}
	s.counts.cluster.Add(1)
	return whole(reply, q), true
}

// whole has a client who does not take so much come again by TCP.
func whole(reply []byte, q *query) []byte {
	if len(reply) > q.size {
		return q.finish(q.begin(reply), 0, authoritative|truncated, 0, 0, 0)
	}
	return reply
}

// searched takes the first name of a search path off what is asked for; it is the
// asking pod's if the pod is of that namespace. What may be the whole name of a
// Service, or lies below one that there is, is nobody else's to answer.
func (z *zone) searched(q *query) (base, namespace string, ok bool) {
	rest, ok := cut(q.name(), z.zone)
	if !ok {
		return "", "", false
	}
	var starts []int // of labels: those of the base, the namespace, svc
	for at := 0; at < len(rest); at += int(rest[at]) + 1 {
		starts = append(starts, at)
	}
	if len(starts) < 4 || string(rest[starts[len(starts)-1]:]) != "\x03svc" {
		return "", "", false
	}
	if len(starts) == 4 && z.hasService(rest[starts[1]:]) {
		return "", "", false
	}
	at := starts[len(starts)-2]
	of, _ := label(rest[at:])
	base, _, err := dns.UnpackDomainName(append(append([]byte(nil), q.asked()[:at]...), 0), 0)
	return base, string(of), err == nil
}

// later answers what has to wait.
func (s *Server) later(packet []byte, client netip.Addr, tcp bool) []byte {
	var q query
	if rcode, err := q.parse(packet, tcp); rcode != 0 || err != nil {
		return nil // it was looked at before
	}
	reply, what := s.zone.answer(nil, &q)
	switch what {
	case answered: // it came meanwhile
		return whole(reply, &q)
	case absent, alias:
		m := s.compose(s.ctx, &q, client, what)
		m.Compress = true
		m.Truncate(q.size)
		wire, err := m.Pack()
		if err != nil {
			s.log.Debug("answer DNS", "name", q.text(), "err", err)
			return q.fail(nil, servfail)
		}
		return wire
	}
	k, fresh, err := s.elsewhere(s.ctx, &q)
	if err != nil {
		s.counts.failed.Add(1)
		s.log.Debug("ask others", "name", q.text(), "err", err)
		return q.fail(nil, servfail)
	}
	if fresh {
		s.counts.forwarded.Add(1)
	} else {
		s.counts.stale.Add(1)
	}
	return k.reply(nil, &q, time.Now())
}

// elsewhere gives others' answer: a fresh one, or an old one if nobody gives a
// fresh one in time. It goes on asking then.
func (s *Server) elsewhere(ctx context.Context, q *query) (k *kept, fresh bool, err error) {
	key := string(cacheKey(nil, q))
	old, fresh := s.cache.get([]byte(key), time.Now())
	if fresh {
		return old, true, nil
	}
	m := new(dns.Msg).SetQuestion(q.text(), q.qtype)
	m.CheckingDisabled = q.flags&unchecked != 0
	m.SetEdns0(bestUDP, q.secure)
	flight := s.flights.join(s.wait.Go, key, func() (*kept, error) { return s.fetch(ctx, key, m) })
	var late <-chan time.Time
	if old != nil {
		timer := time.NewTimer(responseTimeout)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-flight.done:
		if flight.err != nil && old != nil {
			return old, false, nil
		}
		return flight.kept, true, flight.err
	case <-late:
		return old, false, nil
	}
}

// fetch asks others, and keeps what they say.
func (s *Server) fetch(ctx context.Context, key string, m *dns.Msg) (*kept, error) {
	servers, _ := s.upstream(ctx)
	began := time.Now()
	answer, err := s.forward.ask(ctx, servers, m)
	if err != nil {
		return nil, err
	}
	s.counts.took(time.Since(began))
	now := time.Now()
	k, err := keep(answer, now)
	if err != nil {
		return nil, err
	}
	if now.Before(k.until) {
		s.cache.put(key, k)
		return k, nil
	}
	if old, _ := s.cache.get([]byte(key), now); old != nil && k.failed() {
		return nil, errNoServer // the old answer is better
	}
	k.until = now.Add(time.Second) // for whom it was asked
	return k, nil
}

// upstream gives the machine's resolvers and search path. New ones are probed.
func (s *Server) upstream(ctx context.Context) ([]netip.AddrPort, []string) {
	servers, search, changed := s.machine.read(time.Now())
	if changed {
		s.forward.probe(ctx, s.wait.Go, servers)
	}
	return servers, search
}

// compose makes the answers that are put together from several.
func (s *Server) compose(ctx context.Context, q *query, client netip.Addr, what outcome) *dns.Msg {
	asked := s.question(q)
	if what == alias {
		s.counts.cluster.Add(1)
		return s.follow(ctx, asked, q)
	}
	base, of, ok := s.zone.searched(q)
	if namespace, known := s.cfg.Pod(client); !ok || !known || namespace != of {
		s.counts.cluster.Add(1)
		return s.deny(asked, q)
	}
	s.counts.searched.Add(1)
	return s.search(ctx, asked, q, base)
}

// question is the reply's beginning.
func (s *Server) question(q *query) *dns.Msg {
	name, _, _ := dns.UnpackDomainName(q.asked(), 0)
	m := &dns.Msg{Question: []dns.Question{{Name: name, Qtype: q.qtype, Qclass: dns.ClassINET}}}
	m.Id = uint16(q.packet[0])<<8 | uint16(q.packet[1])
	m.Response, m.RecursionAvailable, m.Authoritative = true, true, true
	m.RecursionDesired, m.CheckingDisabled = q.flags&wantRecursion != 0, q.flags&unchecked != 0
	if q.edns {
		m.SetEdns0(bestUDP, q.secure)
	}
	return m
}

// search tries the names of a pod's search path after the first, which is known
// to be none, and at last the name itself. The first that exists is the answer.
func (s *Server) search(ctx context.Context, m *dns.Msg, q *query, base string) *dns.Msg {
	failed := false
	for _, name := range s.path(ctx, base) {
		found := s.lookup(ctx, name, q, 0)
		if found.Rcode == dns.RcodeSuccess {
			m.Answer = append([]dns.RR{&dns.CNAME{
				Hdr: dns.RR_Header{Name: m.Question[0].Name, Rrtype: dns.TypeCNAME, Class: dns.ClassINET, Ttl: ttl}, Target: name,
			}}, found.Answer...)
			m.Ns = found.Ns
			return m
		}
		failed = failed || found.Rcode != dns.RcodeNameError
	}
	if failed {
		m.Rcode = servfail
		return m
	}
	return s.deny(m, q)
}

// deny says that there is no such name.
func (s *Server) deny(m *dns.Msg, q *query) *dns.Msg {
	denial := new(dns.Msg)
	if reply, _ := s.zone.answer(nil, q); denial.Unpack(reply) == nil {
		m.Rcode, m.Ns = denial.Rcode, denial.Ns
	}
	return m
}

// path lists where the search goes on. Names of the cluster's own are not looked
// for in others' domains.
func (s *Server) path(ctx context.Context, base string) []string {
	domain := dns.Fqdn(s.cfg.Domain)
	names := []string{base + "svc." + domain, base + domain}
	if !dns.IsSubDomain(domain, strings.ToLower(base)) {
		_, search := s.upstream(ctx)
		for _, suffix := range search {
			if suffix = strings.TrimPrefix(dns.Fqdn(suffix), "."); suffix != "" {
				names = append(names, base+suffix)
			}
		}
	}
	names = append(names, base)
	fitting := names[:0]
	for _, name := range names {
		if _, err := wireName(name); err == nil {
			fitting = append(fitting, name)
		}
	}
	return fitting
}

// follow answers for a service that is another name: that name's records come
// after the CNAME.
func (s *Server) follow(ctx context.Context, m *dns.Msg, q *query) *dns.Msg {
	found := s.lookup(ctx, m.Question[0].Name, q, 0)
	m.Rcode, m.Answer, m.Ns = found.Rcode, found.Answer, found.Ns
	return m
}

// lookup answers for a name as if it had been asked for, through all aliases.
func (s *Server) lookup(ctx context.Context, name string, as *query, depth int) *dns.Msg {
	failed := &dns.Msg{MsgHdr: dns.MsgHdr{Rcode: servfail}}
	ask := new(dns.Msg).SetQuestion(name, as.qtype)
	ask.CheckingDisabled = as.flags&unchecked != 0
	if as.secure {
		ask.SetEdns0(bestUDP, true)
	}
	wire, err := ask.Pack()
	if err != nil || depth > longest {
		return failed
	}
	var q query
	if rcode, err := q.parse(wire, true); rcode != 0 || err != nil {
		return failed
	}
	reply, what := s.zone.answer(nil, &q)
	if what == elsewhere {
		k, _, err := s.elsewhere(ctx, &q)
		if err != nil {
			return failed
		}
		reply = k.reply(nil, &q, time.Now())
	}
	found := new(dns.Msg)
	if found.Unpack(reply) != nil {
		return failed
	}
	found.Extra = nil
	if what == alias {
		next := s.lookup(ctx, found.Answer[0].(*dns.CNAME).Target, as, depth+1)
		found.Rcode, found.Answer, found.Ns = next.Rcode, append(found.Answer, next.Answer...), next.Ns
	}
	return found
}

// flights are the questions that are being asked of others, each once.
type flights struct {
	mu sync.Mutex
	up map[string]*flight
}

type flight struct {
	done chan struct{}
	kept *kept
	err  error
}

// join starts a flight by spawn, or waits for the one that is up.
func (f *flights) join(spawn func(func()), key string, fetch func() (*kept, error)) *flight {
	f.mu.Lock()
	defer f.mu.Unlock()
	if one := f.up[key]; one != nil {
		return one
	}
	one := &flight{done: make(chan struct{})}
	if f.up == nil {
		f.up = map[string]*flight{}
	}
	f.up[key] = one
	spawn(func() {
		one.kept, one.err = fetch()
		f.mu.Lock()
		delete(f.up, key)
		f.mu.Unlock()
		close(one.done)
	})
	return one
}
