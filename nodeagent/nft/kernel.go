package nft

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/nodeagent/forward"
)

// Config says for which pods.
type Config struct {
	// Bridge of this node's pods; the tables are named after it.
	Bridge string
	// PodRanges are those of this node's pods, ClusterRanges of all pods of the
	// cluster: between these, addresses are kept.
	PodRanges, ClusterRanges []netip.Prefix
	// Names are addresses at which the machine itself answers DNS, whatever ports of
	// it pods and services have.
	Names []netip.Addr
	// Tunnels are devices to other nodes, which take less at once than other links.
	Tunnels []string
	// NoLoopback: no port leads from the loopback to pods, whose answers would not
	// come back.
	NoLoopback bool
	Log        *slog.Logger

	// dial connects to the kernel; tests have it refuse.
	dial func(...nftables.ConnOption) (*nftables.Conn, error)
}

// Kernel is this node's tables in the kernel. It is safe for concurrent use.
type Kernel struct {
	cfg Config
	ns  *os.File // of the network

	mu     sync.Mutex
	tables []*table
	// filters are the tables of network policies.
	filters []*filter
	// senders is nil where the kernel has no nftables for bridges.
	senders *senders
	// complete: all that is wanted is known; filtered: of policies, too.
	complete, filtered bool
	// known is the generation of rules in which all was as it should be; 0 if that
	// is not known.
	known uint32
	// blocked is what the machine's firewall was last seen to drop by.
	blocked string
	// sent counts the messages that would change something.
	sent atomic.Int64
}

// Open finds the tables as a former process left them, and lays what is missing
// of their rules. Elements stay until the first Apply.
func Open(cfg Config) (*Kernel, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.dial == nil {
		cfg.dial = nftables.New
	}
	// Of this thread: the network may be another than the process began in.
	ns, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, fmt.Errorf("open the network namespace: %w", err)
	}
	k := &Kernel{cfg: cfg, ns: ns}
	for _, f := range families {
		t := newTable(k, f)
		err := t.lay()
		if err == nil {
			err = t.read()
		}
		switch {
		case err == nil:
			k.tables = append(k.tables, t)
		case missing(err) && !f.is4():
			cfg.Log.Info("this kernel has no nftables for IPv6: services have no IPv6 addresses here", "err", err)
		case missing(err):
			return nil, errors.Join(fmt.Errorf("this kernel has no nftables (CONFIG_NF_TABLES, NFT_NAT, NFT_MASQ, NFT_NUMGEN, NFT_FIB, NFT_REJECT): %w", err), k.Close())
		default:
			return nil, errors.Join(fmt.Errorf("lay rules for services: %w", err), k.Close())
		}
	}
	if err := k.openFilters(); err != nil {
		return nil, errors.Join(err, k.Close())
	}
	if k.senders, err = openSenders(k); err != nil {
		return nil, errors.Join(err, k.Close())
	}
	if err := k.lookAtFirewall(); err != nil {
		return nil, errors.Join(err, k.Close())
	}
	return k, nil
}

// missing: the kernel was built without something.
func missing(err error) bool {
	for _, no := range []error{unix.EPROTONOSUPPORT, unix.EOPNOTSUPP, unix.EAFNOSUPPORT, unix.ENOENT, unix.EINVAL, unix.ENOSYS} {
		if errors.Is(err, no) {
			return true
		}
	}
	return false
}

// Close lets go of the kernel; the tables stay.
func (k *Kernel) Close() error { return k.ns.Close() }

// Remove takes the tables away.
func (k *Kernel) Remove() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	var errs []error
	for _, t := range k.tables {
		errs = append(errs, k.remove(t.nft))
	}
	for _, t := range k.filters {
		errs = append(errs, k.remove(t.nft))
	}
	if k.senders != nil {
		errs = append(errs, k.remove(k.senders.nft))
	}
	return errors.Join(errs...)
}

// remove takes a table away, if it is there.
func (k *Kernel) remove(t *nftables.Table) error {
	c, err := k.conn()
	if err != nil {
		return err
	}
	c.DelTable(t)
	if err := k.flush(c); !errors.Is(err, unix.ENOENT) {
		return err
	}
	return nil
}

// Sent is how many changes have been sent to the kernel, elements counted each.
func (k *Kernel) Sent() int64 { return k.sent.Load() }

// Apply makes a change. What it does not name stays, unless complete: then
// that goes, which is how a process begins.
func (k *Kernel) Apply(c forward.Change, complete bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.complete = k.complete || complete
	var errs []error
	for _, t := range k.tables {
		errs = append(errs, t.apply(c, complete))
	}
	return errors.Join(errs...)
}

// Pin makes fronts that hold until Unpin, and that no Apply changes: the
// machine's ports that pods have. Of two owners of one front the later has it.
func (k *Kernel) Pin(owner string, fronts map[forward.Front]*forward.Entry) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	var errs []error
	for _, t := range k.tables {
		errs = append(errs, t.pin(owner, fronts))
	}
	return errors.Join(errs...)
}

// Unpin ends what Pin made for an owner.
func (k *Kernel) Unpin(owner string) error { return k.Pin(owner, nil) }

// Forget removes the kernel's memory of all flows from and to some addresses: who has
// one next, and whom policies judge anew, must not go on with a former pod's.
func (k *Kernel) Forget(addresses []netip.Addr) error {
	chosen := flowsOf{}
	for _, a := range addresses {
		chosen[a] = true
	}
	var errs []error
	for _, t := range k.tables {
		if slices.ContainsFunc(addresses, t.has) {
			errs = append(errs, t.forgetAll(chosen))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("forget the flows of former pods: %w", err)
	}
	return nil
}

// Bind has what comes by pods' ports of the bridge be dropped, unless it is sent by
// these addresses. What is bound already stays so, unless complete: then that goes
// which is not named, and a process begins so. Without nftables for bridges it does
// nothing.
func (k *Kernel) Bind(ports map[string]Sender, complete bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.senders == nil {
		return nil
	}
	return k.senders.bind(ports, complete)
}

// Unbind ends what Bind made for an owner.
func (k *Kernel) Unbind(owner string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.senders == nil {
		return nil
	}
	return k.senders.unbind(owner)
}

// Repair compares what the kernel has with what it should, and mends it; and it
// looks whether the machine's firewall keeps pods' packets back. Of services it
// mends nothing before the first complete Apply, of policies nothing before the
// first complete Filter.
func (k *Kernel) Repair() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	before, err := k.generation()
	if err != nil || !k.complete && !k.filtered {
		return err
	}
	if before == k.known {
		return k.tidy()
	}
	k.known = before
	errs := []error{k.lookAtFirewall()}
	for _, t := range k.tables {
		if k.complete {
			errs = append(errs, t.repair())
		}
	}
	for _, t := range k.filters {
		if k.filtered {
			errs = append(errs, t.repair())
		}
	}
	if k.senders != nil && k.senders.complete {
		errs = append(errs, k.senders.repair())
	}
	if errs = append(errs, k.confirm()); errors.Join(errs...) != nil {
		k.known = 0
	}
	return errors.Join(errs...)
}

// tidy does what is left to do where the kernel has what it should.
func (k *Kernel) tidy() error {
	if !k.complete {
		return nil
	}
	var errs []error
	for _, t := range k.tables {
		errs = append(errs, t.tidy())
	}
	return errors.Join(errs...)
}

// confirm forgets what is known if somebody else changed rules meanwhile.
func (k *Kernel) confirm() error {
	now, err := k.generation()
	if now != k.known {
		k.known = 0
	}
	return err
}

// conn opens a connection for one exchange, in the network's namespace.
func (k *Kernel) conn() (*nftables.Conn, error) {
	return k.connect(func(c *netlink.Conn) error {
		return errors.Join(c.SetWriteBuffer(8<<20), c.SetReadBuffer(8<<20))
	})
}

// reader opens connections for whole sets. The kernel gives them in pieces that
// are as large as the largest read before, and for each walks the set from its
// beginning: so the first read, of something short, is a large one.
func (k *Kernel) reader() (*nftables.Conn, error) {
	return k.connect(func(c *netlink.Conn) error {
		if _, err := c.Send(askGeneration); err != nil {
			return err
		}
		raw, err := c.SyscallConn()
		if err != nil {
			return err
		}
		var failed error
		err = raw.Read(func(fd uintptr) bool {
			_, _, failed = unix.Recvfrom(int(fd), make([]byte, 64<<10), 0)
			return !errors.Is(failed, unix.EAGAIN)
		})
		return errors.Join(err, failed, c.SetReadBuffer(8<<20))
	})
}

func (k *Kernel) connect(set func(*netlink.Conn) error) (*nftables.Conn, error) {
	return k.cfg.dial(nftables.WithNetNSFd(int(k.ns.Fd())), nftables.WithSockOptions(set))
}
