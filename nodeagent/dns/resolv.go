package dns

import (
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// checkEvery is how long the machine's resolv.conf is believed.
const checkEvery = 5 * time.Second

// machine is what the machine's resolv.conf says.
type machine struct {
	path string
	own  []netip.Addr // our addresses: nobody to ask
	log  *slog.Logger

	mu      sync.Mutex
	checked time.Time
	text    string
	servers []netip.AddrPort
	search  []string
}

// read gives the servers and the search path as they are now. changed tells that
// they were others at the last call.
func (m *machine) read(now time.Time) (servers []netip.AddrPort, search []string, changed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.checked.IsZero() && now.Sub(m.checked) < checkEvery {
		return m.servers, m.search, false
	}
	first := m.checked.IsZero()
	m.checked = now
	text, err := os.ReadFile(m.path)
	if err != nil {
		if first {
			m.log.Warn("no resolvers of this machine: names outside the cluster do not resolve in pods", "err", err)
		}
		return m.servers, m.search, false
	}
	if m.text == string(text) {
		return m.servers, m.search, false
	}
	m.text = string(text)
	m.servers, m.search = m.parse(m.text)
	if len(m.servers) == 0 {
		m.log.Warn("no other resolver in "+m.path+": names outside the cluster do not resolve in pods", "own", m.own)
	}
	return m.servers, m.search, true
}

func (m *machine) parse(text string) (servers []netip.AddrPort, search []string) {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		switch words[0] {
		case "nameserver":
			a, err := netip.ParseAddr(words[1])
			if err != nil || slices.Contains(m.own, a.WithZone("").Unmap()) || len(servers) == 3 {
				continue
			}
			if at := netip.AddrPortFrom(a.Unmap(), 53); !slices.Contains(servers, at) {
				servers = append(servers, at)
			}
		case "search":
			search = words[1:]
		}
	}
	return servers, search
}
