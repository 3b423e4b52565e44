package serviceip

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/store"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// Ranges that addresses come from.
type Ranges struct {
	// Services are the ranges of cluster addresses, one or one of each family;
	// the first is of the family that services have unless they say otherwise.
	// By default 10.96.0.0/16.
	Services []netip.Prefix
	// NodePorts from First to Last; by default 30000 to 32767.
	First, Last int32
}

// Defaults are Kubernetes' own, as its installers set them.
var Defaults = Ranges{Services: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}, First: 30000, Last: 32767}

func (r Ranges) withDefaults() Ranges {
	if len(r.Services) == 0 {
		r.Services = Defaults.Services
	}
	if r.First == 0 {
		r.First, r.Last = Defaults.First, Defaults.Last
	}
	return r
}

// Check tells what is wrong with ranges of services.
func Check(ranges []netip.Prefix) error {
	for i, r := range ranges {
		switch {
		case r != r.Masked():
			return fmt.Errorf("%s is not a network: want %s", r, r.Masked())
		case r.Addr().BitLen()-r.Bits() < 3:
			return fmt.Errorf("%s is too small for services: want /%d or larger", r, r.Addr().BitLen()-3)
		case r.Addr().BitLen()-r.Bits() > 20:
			return fmt.Errorf("%s is larger than Kubernetes lets it be: want /%d or smaller", r, r.Addr().BitLen()-20)
		case i > 1 || i == 1 && r.Addr().Is4() == ranges[0].Addr().Is4():
			return fmt.Errorf("%v: want one range, or one of each family", ranges)
		}
	}
	return nil
}

// Nth is the address that lies so far from the start of a range.
func Nth(r netip.Prefix, n uint64) netip.Addr {
	raw := r.Masked().Addr().As16()
	low := binary.BigEndian.Uint64(raw[8:])
	binary.BigEndian.PutUint64(raw[8:], low+n)
	if r.Addr().Is4() {
		return netip.AddrFrom16(raw).Unmap()
	}
	return netip.AddrFrom16(raw)
}

// size is how many addresses a range has, as far as this package counts.
func size(r netip.Prefix) uint64 { return 1 << min(r.Addr().BitLen()-r.Bits(), 32) }

func family(ip netip.Addr) corev1.IPFamily {
	if ip.Is4() {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}

// reserveFor is longer than any request takes: until then, a port that was
// given out is held although the store doesn't show it yet.
const reserveFor = 2 * time.Minute

// allocator finds what is free. What is stored is read from the store each
// time, so nothing can leak.
type allocator struct {
	ranges Ranges
	store  *store.Store

	mu    sync.Mutex
	given map[int32]time.Time // ports of requests that are under way
}

// rangesOf are the ranges of a family from which addresses may be given.
func (a *allocator) rangesOf(f corev1.IPFamily) []netip.Prefix {
	var out []netip.Prefix
	for _, r := range a.ranges.Services {
		if family(r.Addr()) == f {
			out = append(out, r)
		}
	}
	list, err := a.store.List("servicecidrs.networking.k8s.io", "", store.ListOptions{})
	if err != nil {
		return out
	}
	for _, obj := range list.Items {
		c, ok := obj.(*networkingv1.ServiceCIDR)
		if !ok || c.DeletionTimestamp != nil {
			continue
		}
		for _, text := range c.Spec.CIDRs {
			if r, err := netip.ParsePrefix(text); err == nil && family(r.Addr()) == f && !slices.Contains(out, r) {
				out = append(out, r)
			}
		}
	}
	return out
}

// freeAddress picks an address of a family. As in Kubernetes, the lower part of
// a range is for those who name their address, and given to others last; network
// and broadcast addresses, and the API's own, are left out.
func (a *allocator) freeAddress(f corev1.IPFamily, free func(netip.Addr) bool) (netip.Addr, bool) {
	for _, r := range a.rangesOf(f) {
		n := size(r)
		if n < 4 {
			continue
		}
		last := n
		if r.Addr().Is4() {
			last-- // broadcast
		}
		lower := min(max(16, n/16), 256)
		if lower >= last {
			lower = 2
		}
		start := rand.Uint64N(last - lower)
		for i := range last - lower {
			if ip := Nth(r, lower+(start+i)%(last-lower)); free(ip) {
				return ip, true
			}
		}
		for i := uint64(2); i < lower; i++ {
			if ip := Nth(r, i); free(ip) {
				return ip, true
			}
		}
	}
	return netip.Addr{}, false
}

// usedPort tells whether a service has a node port, or is about to.
func (a *allocator) usedPort(port int32) bool {
	if len(a.store.Indexed("services", registry.IndexNodePort, strconv.Itoa(int(port)))) > 0 {
		return true
	}
	at, ok := a.given[port]
	if ok && time.Since(at) > reserveFor {
		delete(a.given, port)
		return false
	}
	return ok
}

func (a *allocator) freePort() (int32, bool) {
	n := a.ranges.Last - a.ranges.First + 1
	start := rand.Int32N(n)
	for i := range n {
		if port := a.ranges.First + (start+i)%n; !a.usedPort(port) {
			return port, true
		}
	}
	return 0, false
}
