package serviceip

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"github.com/berth-dev/berth/host/store"

	corev1 "k8s.io/api/core/v1"
)

// Ranges that addresses come from.
type Ranges struct {
	// Services is the range of cluster addresses, IPv4; by default 10.96.0.0/16.
	Services netip.Prefix
	// NodePorts from First to Last; by default 30000 to 32767.
	First, Last int32
}

// Defaults are Kubernetes' own, as its installers set them.
var Defaults = Ranges{Services: netip.MustParsePrefix("10.96.0.0/16"), First: 30000, Last: 32767}

// reserveFor is longer than any request takes: until then, what was given out
// is held although the store doesn't show it yet.
const reserveFor = 2 * time.Minute

// allocator remembers what is given out and not yet stored. What is stored is
// read from the store each time, so nothing can leak.
type allocator struct {
	ranges Ranges
	store  *store.Store

	mu    sync.Mutex
	given map[any]time.Time // netip.Addr or int32 port
}

// taken is what services hold, but for one service.
func (a *allocator) taken(but store.Key) (map[any]bool, error) {
	list, err := a.store.List("services", "", store.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("look for free addresses: %w", err)
	}
	used := map[any]bool{}
	for _, obj := range list.Items {
		if obj.GetNamespace() == but.Namespace && obj.GetName() == but.Name {
			continue
		}
		for what := range holds(obj.(*corev1.Service)) {
			used[what] = true
		}
	}
	now := time.Now()
	for what, at := range a.given {
		if now.Sub(at) > reserveFor {
			delete(a.given, what)
			continue
		}
		used[what] = true
	}
	return used, nil
}

// holds are the addresses and ports of a service.
func holds(s *corev1.Service) map[any]bool {
	held := map[any]bool{}
	for _, text := range append([]string{s.Spec.ClusterIP}, s.Spec.ClusterIPs...) {
		if ip, err := netip.ParseAddr(text); err == nil {
			held[ip] = true
		}
	}
	for _, p := range s.Spec.Ports {
		if p.NodePort != 0 {
			held[p.NodePort] = true
		}
	}
	if p := s.Spec.HealthCheckNodePort; p != 0 {
		held[p] = true
	}
	return held
}

// freeAddress picks an address at random, then the next free one. Network,
// broadcast, and the first address, which is the API's own, are left out.
func (a *allocator) freeAddress(used map[any]bool) (netip.Addr, bool) {
	size := uint64(1) << (32 - a.ranges.Services.Bits())
	if size < 4 {
		return netip.Addr{}, false
	}
	base := a.ranges.Services.Masked().Addr().As4()
	first := binary.BigEndian.Uint32(base[:])
	start := rand.Uint64N(size)
	for i := range size {
		n := (start + i) % size
		if n < 2 || n == size-1 {
			continue
		}
		var raw [4]byte
		binary.BigEndian.PutUint32(raw[:], first+uint32(n))
		if ip := netip.AddrFrom4(raw); !used[ip] {
			return ip, true
		}
	}
	return netip.Addr{}, false
}

func (a *allocator) freePort(used map[any]bool) (int32, bool) {
	size := a.ranges.Last - a.ranges.First + 1
	start := rand.Int32N(size)
	for i := range size {
		if port := a.ranges.First + (start+i)%size; !used[port] {
			return port, true
		}
	}
	return 0, false
}
