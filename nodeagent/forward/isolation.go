package forward

import "net/netip"

// Set names a set of peers by what it selects: equal selections have one name.
type Set string

// Member is one of a set: an address, and in the set of a named port also which
// port that is there.
type Member struct {
	Addr     netip.Addr
	Port     uint16
	Protocol Protocol
}

// Ports are a range of a protocol's.
type Ports struct {
	Protocol    Protocol
	First, Last uint16
}

// Range is of addresses of one family, both ends in it.
type Range struct{ First, Last netip.Addr }

// Allow lets new connections through: those with some peers, at some ports.
type Allow struct {
	// Everybody, or the members of Set, or who is in Ranges.
	Everybody bool
	Set       Set
	Ranges    []Range
	// Named: the set's members have their ports with them. Else none is all ports
	// of all protocols.
	Named bool
	Ports []Ports
}

// Allowed are the connections in one direction that a pod may have. It is not
// written to once made: many pods share one.
type Allowed struct{ List []Allow }

// Isolation is what network policies make of a pod: what it may take in and what
// it may begin; nil is everything.
type Isolation struct{ Ingress, Egress *Allowed }

// SetChange is what is different in a set.
type SetChange struct {
	// Anew: what was in it before is not in it any more.
	Anew        bool
	Join, Leave []Member
}

// Filter says what is different from now on for this machine's pods.
type Filter struct {
	// Pods by their addresses; nil: no policy selects it, or it is gone.
	Pods map[netip.Addr]*Isolation
	Sets map[Set]SetChange
}

// Empty tells whether nothing is different.
func (f Filter) Empty() bool { return len(f.Pods)+len(f.Sets) == 0 }

// From is whom it takes connections from; nil is everybody.
func (i *Isolation) From() *Allowed {
	if i == nil {
		return nil
	}
	return i.Ingress
}

// To is whom it begins connections to; nil is everybody.
func (i *Isolation) To() *Allowed {
	if i == nil {
		return nil
	}
	return i.Egress
}
