package dns

import (
	"slices"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// FuzzQuery: whatever comes, the answer can be read, is to that question, and is
// no larger than the client takes.
func FuzzQuery(f *testing.F) {
	s, _ := newTestServer(f, "nameserver 192.0.2.1\nsearch corp\n", nil)
	for _, m := range []*dns.Msg{
		question("kubernetes.default.svc.cluster.local.", dns.TypeA), question("_https._tcp.headless.default.svc.cluster.local.", dns.TypeSRV),
		question("www.example.com.default.svc.cluster.local.", dns.TypeA).SetEdns0(4096, true), question("1.0.3.10.in-addr.arpa.", dns.TypePTR),
		question("foo.default.svc.cluster.local.", dns.TypeA), question("large.example.com.", dns.TypeA), question(".", dns.TypeNS),
		question("2.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa.", dns.TypePTR), new(dns.Msg).SetUpdate("cluster.local."),
	} {
		wire, err := m.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(wire, false)
		f.Add(wire, true)
	}
	f.Fuzz(func(t *testing.T, packet []byte, tcp bool) {
		if len(packet) > 4<<10 {
			return
		}
		var q query
		packet = slices.Clip(packet)
		reply, done := s.atOnce(nil, &q, packet, tcp)
		if !done {
			reply = s.later(packet, pod, tcp)
			if len(reply) == 0 {
				t.Fatalf("no answer to %x", packet)
			}
		}
		if len(reply) == 0 {
			return
		}
		got := new(dns.Msg)
		if err := got.Unpack(reply); err != nil {
			t.Fatalf("answer %x to %x: %v", reply, packet, err)
		}
		limit := 512
		if q.edns {
			limit = bestUDP
		}
		if !tcp && len(reply) > limit || string(reply[:2]) != string(packet[:2]) || !got.Response {
			t.Fatalf("answer %v (%d bytes) to %x", got, len(reply), packet)
		}
	})
}

// FuzzKept: where the records of an answer lie is read as the library does.
func FuzzKept(f *testing.F) {
	for _, name := range []string{"www.example.com.", "none.example.com.", "large.example.com."} {
		m := world(question(name, dns.TypeA))
		m.Compress = true
		wire, err := m.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(wire)
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		k, err := parseKept(wire)
		if err != nil {
			return
		}
		if n := int(k.counts[0]) + int(k.counts[1]) + int(k.counts[2]); n != len(k.records) {
			t.Fatalf("%d records, counted %d", len(k.records), n)
		}
		before := 0
		for _, r := range k.records {
			if int(r.ttl) < before || r.end < r.ttl+6 || int(r.end) > len(k.body) {
				t.Fatalf("record %+v of %d bytes", r, len(k.body))
			}
			before = int(r.end)
		}
		var q query
		if rcode, err := q.parse(append(slices.Clone(wire[:2]), append([]byte{1, 0, 0, 1, 0, 0, 0, 0, 0, 0}, wire[headerLen:]...)...), false); rcode != 0 || err != nil {
			return
		}
		if reply := k.reply(nil, &q, time.Now()); len(reply) > 512 {
			t.Fatalf("%d bytes", len(reply))
		}
	})
}
