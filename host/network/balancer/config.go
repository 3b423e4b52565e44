package balancer

import (
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strings"
)

// Class is the loadBalancerClass of Services that are ours; so are those that name none.
const Class = "berth.dev/load-balancer"

// Config says where addresses come from: its zero value is from nowhere.
type Config struct {
	// Nodes has nodes answer at their own addresses.
	Nodes bool
	// Pools have addresses for Services.
	Pools []Pool
	// Reserved are ports that nodes keep for themselves, and why.
	Reserved map[Port]string
	// First to Last are node ports, which nodes keep too.
	First, Last int32
}

// On tells whether Services get addresses at all.
func (c Config) On() bool { return c.Nodes || len(c.Pools) > 0 }

// Pool is a range of addresses, both ends included.
type Pool struct{ First, Last netip.Addr }

// String is FIRST-LAST, or the one address.
func (p Pool) String() string {
	if p.First == p.Last {
		return p.First.String()
	}
	return p.First.String() + "-" + p.Last.String()
}

func (p Pool) contains(a netip.Addr) bool {
	return a.BitLen() == p.First.BitLen() && p.First.Compare(a) <= 0 && a.Compare(p.Last) <= 0
}

// Overlaps tells whether a network has addresses of the pool.
func (p Pool) Overlaps(r netip.Prefix) bool {
	return r.Contains(p.First) || p.contains(r.Masked().Addr())
}

func (p Pool) all() iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		for a := p.First; a.IsValid() && a.Compare(p.Last) <= 0; a = a.Next() {
			if !yield(a) {
				return
			}
		}
	}
}

// Parse reads none, nodes, or pools parted by commas: ranges as FIRST-LAST, CIDRs,
// and single addresses.
func Parse(text string) (Config, error) {
	switch text {
	case "", "none":
		return Config{}, nil
	case "nodes":
		return Config{Nodes: true}, nil
	}
	var c Config
	for part := range strings.SplitSeq(text, ",") {
		p, err := parsePool(strings.TrimSpace(part))
		if err != nil {
			return Config{}, err
		}
		for _, other := range c.Pools {
			if p.contains(other.First) || other.contains(p.First) {
				return Config{}, fmt.Errorf("%s and %s overlap", other, p)
			}
		}
		c.Pools = append(c.Pools, p)
	}
	return c, nil
}

func parsePool(text string) (Pool, error) {
	p, err := ends(text)
	if err != nil {
		return Pool{}, err
	}
	if p.First.BitLen() != p.Last.BitLen() || p.Last.Less(p.First) {
		return Pool{}, fmt.Errorf("%q is no range: want FIRST-LAST of one family", text)
	}
	for _, special := range []struct {
		is   func(netip.Addr) bool
		what string
	}{
		{netip.Addr.IsUnspecified, "no address"}, {netip.Addr.IsLoopback, "this machine's own"},
		{netip.Addr.IsMulticast, "for many"}, {netip.Addr.IsLinkLocalUnicast, "of one link alone"},
	} {
		if special.is(p.First) || special.is(p.Last) {
			return Pool{}, fmt.Errorf("%q: such addresses are %s; want ones that clients reach", text, special.what)
		}
	}
	return p, nil
}

func ends(text string) (Pool, error) {
	if first, last, ok := strings.Cut(text, "-"); ok {
		a, errA := netip.ParseAddr(first)
		b, errB := netip.ParseAddr(last)
		if errA == nil && errB == nil && a.Zone() == "" && b.Zone() == "" && !a.Is4In6() && !b.Is4In6() {
			return Pool{a, b}, nil
		}
	} else if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" && !a.Is4In6() {
		return Pool{a, a}, nil
	} else if r, err := netip.ParsePrefix(text); err == nil && !r.Addr().Is4In6() {
		if r != r.Masked() {
			return Pool{}, fmt.Errorf("%s is no network: want %s", r, r.Masked())
		}
		return of(r), nil
	}
	return Pool{}, fmt.Errorf("%q: want nodes, none, or pools such as 192.0.2.10-192.0.2.20, 2001:db8::100/120", text)
}

// of is a network's addresses, less those of IPv4 that mean all of it.
func of(r netip.Prefix) Pool {
	last := r.Addr().AsSlice()
	for bit := r.Bits(); bit < r.Addr().BitLen(); bit++ {
		last[bit/8] |= 0x80 >> (bit % 8)
	}
	end, _ := netip.AddrFromSlice(last) // it is as long as an address was
	if r.Addr().Is4() && r.Bits() < 31 {
		return Pool{r.Addr().Next(), end.Prev()}
	}
	return Pool{r.Addr(), end}
}

func (c Config) within(a netip.Addr) bool {
	return slices.ContainsFunc(c.Pools, func(p Pool) bool { return p.contains(a) })
}
