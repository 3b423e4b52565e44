package host

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"time"
)

// Config says how a host runs. DataDir, Listen and Log are required.
type Config struct {
	// DataDir holds all state of the host.
	DataDir string
	// Compiled is the folder of compiled modules, DataDir/compiled if empty.
	// Hosts of one user may share it.
	Compiled string
	// Listen is the API's address.
	Listen string
	// Advertise are further names and addresses of the API.
	Advertise []string
	// PodCIDR is the range of the pod network; each node gets a /24 of it.
	PodCIDR string
	// ServiceCIDR is the range of services' addresses, or two, one of each
	// family, parted by a comma; 10.96.0.0/16 if empty.
	ServiceCIDR string
	// Ingress has a class be made for Ingresses that node agents answer for.
	Ingress bool
	// LoadBalancers is where Services of type LoadBalancer get addresses from:
	// nodes, pools parted by commas, or none, which it is if empty.
	LoadBalancers string
	// NodeGrace is how long a node may leave its Lease unrenewed before it is
	// taken for dead; 0 is 40 s.
	NodeGrace time.Duration
	// EndedPods is how many pods that have ended are kept; 0 keeps all.
	EndedPods int
	// AuditLog is a file, empty for none.
	AuditLog string
	// TrustedKeys is a directory of public keys; if given, modules must be
	// signed by one of them.
	TrustedKeys string
	// Record is a directory where all states and decisions are kept, and what
	// controllers were asked, so that any of it can be replayed; empty for what the
	// logs in memory hold.
	Record string
	// MaxStreams is how many watches and streams one client may have open; 0 is
	// 10,000.
	MaxStreams int
	// LogBytes is about what the log of states and decisions may take in memory; 0 is
	// 256 MiB. That of what controllers were asked takes an eighth of it besides.
	LogBytes int
	// GuestMemory bounds what all policies' guests may have together, in bytes; 0
	// is a quarter of the memory that this process may use.
	GuestMemory int64
	// History is how long watches and lists can go back, 5 minutes if 0.
	History time.Duration
	// Version is told by /metrics and in logs.
	Version string
	Log     *slog.Logger
	// DialBackend reaches an endpoint of an APIService's Service; nil is the network,
	// save the machine itself.
	DialBackend func(ctx context.Context, network, address string) (net.Conn, error)
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Serving is what a host that is ready tells.
type Serving struct {
	// URL of the API.
	URL string
	// Kubeconfig is the administrator's.
	Kubeconfig string
	// NewToken makes a token with which a machine joins.
	NewToken func() (string, error)
	// Reach has the API be served at a further address, which pods of this
	// machine reach and which need not be there yet. It does nothing where they
	// reach the API already.
	Reach func(netip.Addr) error
}
