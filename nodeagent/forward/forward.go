// Package forward says in plain values what becomes of connections to services:
// the words between nodeagent/service, which knows Services, and nodeagent/nft,
// which knows the kernel.
package forward

import (
	"net/netip"
	"slices"
	"time"
)

// Protocol is the number of an IP protocol.
type Protocol uint8

// The protocols that services may have.
const (
	TCP  Protocol = 6
	UDP  Protocol = 17
	SCTP Protocol = 132
)

// ProtocolOf is the one that the API calls so, by default TCP.
func ProtocolOf(name string) (p Protocol, known bool) {
	switch name {
	case "", "TCP":
		return TCP, true
	case "UDP":
		return UDP, true
	case "SCTP":
		return SCTP, true
	}
	return 0, false
}

// Front is where clients connect to. An unspecified address stands for each of
// the machine's own of its family: such is a node port.
type Front struct {
	Addr     netip.Addr
	Port     uint16
	Protocol Protocol
}

// Verdict is what becomes of a new connection.
type Verdict uint8

// To is sent to one of the backends, Reject is answered so, Drop is not answered.
const (
	To Verdict = iota
	Reject
	Drop
)

// Target is what a front stands for.
type Target struct {
	Verdict Verdict
	// Backends of To: one at least.
	Backends []netip.AddrPort
	// Masquerade gives all connections an address of this machine. Without it
	// only those get one that come from outside the cluster's pods, unless
	// KeepSource.
	Masquerade, KeepSource bool
	// Affinity, if set, is how long after its last connection a client is sent
	// to the same backend again. Targets of one Group share what is remembered.
	Affinity time.Duration
	Group    string
}

// Entry is what a front stands for to whom.
type Entry struct {
	// Inside is for pods and the machine itself, and for all others unless
	// Outside is set.
	Inside  Target
	Outside *Target
	// Sources, if any, are who may connect at all.
	Sources []netip.Prefix
	// Serving, of UDP, keep the flows that they have, whether or not new ones go to
	// them; so do the targets' backends.
	Serving []netip.AddrPort
}

// Equal tells whether both mean the same.
func (e *Entry) Equal(o *Entry) bool {
	if e == nil || o == nil {
		return e == o
	}
	if (e.Outside == nil) != (o.Outside == nil) || e.Outside != nil && !e.Outside.equal(o.Outside) {
		return false
	}
	return e.Inside.equal(&o.Inside) && slices.Equal(e.Sources, o.Sources) && slices.Equal(e.Serving, o.Serving)
}

func (t *Target) equal(o *Target) bool {
	return t.Verdict == o.Verdict && t.Masquerade == o.Masquerade && t.KeepSource == o.KeepSource &&
		t.Affinity == o.Affinity && t.Group == o.Group && slices.Equal(t.Backends, o.Backends)
}

// Change says what is different from now on.
type Change struct {
	// Fronts that are new or other, and those that are gone (nil).
	Fronts map[Front]*Entry
	// Virtual addresses that nobody has: what is no front of them is rejected.
	Virtual map[netip.Addr]bool
	// Hairpin are backends on this machine: they may be sent to themselves.
	Hairpin map[netip.Addr]bool
}

// NewChange gives an empty one.
func NewChange() Change {
	return Change{Fronts: map[Front]*Entry{}, Virtual: map[netip.Addr]bool{}, Hairpin: map[netip.Addr]bool{}}
}

// Empty tells whether nothing is different.
func (c Change) Empty() bool { return len(c.Fronts)+len(c.Virtual)+len(c.Hairpin) == 0 }
